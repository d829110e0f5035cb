"""Every run and pipeline written out in the documentation or an example is one that the box can read."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluations.pipeline_descriptor import parse_pipeline
from optimize_site.appliance.places import CHECKOUT
from optimize_site.kernel.documents import parse_document
from runs.descriptor import parse_descriptor

BLOCK = re.compile(r"(?m)^kind: (?:run|pipeline)\b")
PAGES = sorted([*(CHECKOUT / "docs").rglob("*.md"), *(CHECKOUT / "catalogs" / "examples").rglob("*.*")])


def descriptors(path: Path) -> Iterator[dict[str, Any]]:
    """The documents of a page's blocks, or of a file, that say they are a run or a pipeline."""
    if path.suffix == ".md":
        for block in re.findall(r"(?ms)^```\w*\n(.*?)^```$", path.read_text()):
            yield from documents(re.sub(r"(?ms)\A.*?<<'EOF'\n(.*?)^EOF$.*", r"\1", block))
    elif path.suffix in {".json", ".yaml", ".yml"}:
        yield from documents(path.read_text())


def documents(text: str) -> Iterator[dict[str, Any]]:
    if BLOCK.search(text) or '"kind": "run"' in text:
        yield parse_document(text)


WRITTEN = [(path, document) for path in PAGES for document in descriptors(path)]


@pytest.mark.parametrize(("path", "document"), WRITTEN, ids=[path.name for path, _ in WRITTEN])
def test_a_written_descriptor_can_be_read(path: Path, document: dict[str, Any]):
    read = parse_descriptor if document["kind"] == "run" else parse_pipeline
    assert read(document).problems == (), path


def test_the_pages_of_methods_and_the_example_are_among_them():
    assert {path.name for path, _ in WRITTEN} >= {"lifecycle.md", "preferences.md", "quickstart.md", "smoke.md",
                                                  "run.json"}


OF_METHODS = {"sft": "quickstart.md", "dpo": "preferences.md", "grpo": "reinforcement.md", "gspo": "reinforcement.md"}
STEPS = ("base-models select", "registry datasets register", "workloads create", "runs start", "evaluations start",
         "workloads promote")


@pytest.mark.parametrize(("method", "page"), OF_METHODS.items())
def test_the_page_of_a_method_goes_from_the_data_to_a_promoted_model(method: str, page: str):
    path = CHECKOUT / "docs" / page
    text = path.read_text()
    assert [step for step in STEPS if f"./optimize {step} " not in text] == []
    run = next(found for found in descriptors(path) if found["kind"] == "run" and found["config"]["method"] == method)
    assert f"./optimize workloads create {run['workload']} " in text
    assert f"./optimize registry datasets register {run['config']['dataset']} " in text


@pytest.mark.parametrize(("page", "file"), [
    ("preferences.md", "replies/run.json"), ("reinforcement.md", "sums/run.json"),
    ("reinforcement.md", "sums/gspo.json")])
def test_a_page_and_its_example_describe_one_run(page: str, file: str):
    (example,) = descriptors(CHECKOUT / "catalogs" / "examples" / file)
    assert any(found["config"] == example["config"] for found in descriptors(CHECKOUT / "docs" / page))
