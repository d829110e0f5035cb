"""The reference pages name every refusal and finding there is."""

import re
from pathlib import Path

import pytest

from datasets import errors, findings, ingest, json_faults, rows

ROOT = Path(__file__).resolve().parents[2]
PAGE = "".join(path.read_text() for path in sorted((ROOT / "docs" / "reference").glob("dataset*.md")))


def codes_in(module):
    """The codes a module hands to a problem: the snake_case words it quotes where it makes one."""
    source = Path(module.__file__).read_text()
    made = r'(?:(?:Problem|Fault)\((?:"[^"]*"|path), |_file_refused\(|, )"([a-z0-9]+(?:_[a-z0-9]+)+)"'
    found = re.findall(made, source)
    return {code for code in found if code not in {"chat_jsonl", "tool_calls", "tool_call_id"}}


@pytest.mark.parametrize("code", sorted(
    rows.EXAMPLES.keys() | findings.SENTENCES.keys() | {code for _, code, _, _ in ingest.OTHER_FILES}
    | codes_in(ingest) | codes_in(json_faults)
    | {kind.code for kind in vars(errors).values() if hasattr(kind, "code") and kind.__module__ == errors.__name__}))
def test_the_page_names_the_code(code):
    assert f"`{code}`" in PAGE


def test_every_code_that_the_page_names_as_a_refusal_is_one():
    others = re.findall(r"Other refusals:(.*?)\n\n", PAGE, re.DOTALL)
    named = {code for text in others for code in re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", text)}
    source = "".join(path.read_text() for app in ("datasets", "registry", "optimize_site/kernel")
                     for path in (ROOT / app).rglob("*.py"))
    assert named and [code for code in sorted(named) if f'"{code}"' not in source] == []
