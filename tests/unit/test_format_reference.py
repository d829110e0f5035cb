"""The page on formats names every refusal of theirs and every kind of import."""

import re
from pathlib import Path

import pytest

from datasets import images, pairs, rows, token_rows
from datasets.formats import archives, chat, eval_items, known, prepared
from datasets.importers import convert, marks, media, openai, records, sources, table, trl, turns

ROOT = Path(__file__).resolve().parents[2]
PAGES = "".join((ROOT / "docs" / "reference" / name).read_text() for name in ("dataset-formats.md", "datasets.md"))
MODULES = (images, pairs, token_rows, archives, chat, eval_items, prepared, marks, media, openai, records, sources,
           table, trl, turns)
CALLS = r'(?:[Pp]roblem|refuse_one|RecordRefused|self\.refuse|BadTokenRow)\(' \
        r'(?:f?"[^"]*"|[\w.]+(?:\[[^\]]*\])?), (?:\w+, )?"([a-z0-9]+(?:_[a-z0-9]+)+)"'


def codes():
    found = {code for module in MODULES for code in re.findall(CALLS, Path(module.__file__).read_text())}
    return found | set(re.findall(r'yield "(\w+)", f?"', Path(token_rows.__file__).read_text()))


def test_the_codes_are_found():
    assert {"image_missing", "fixture_missing", "no_tokens", "several_messages", "nothing_marked"} <= codes()


@pytest.mark.parametrize("word", sorted(codes() | rows.EXAMPLES.keys() | set(known.known_formats())
                                        | convert.KINDS.keys()))
def test_the_page_names_it(word):
    assert f"`{word}`" in PAGES
