"""Versions that share their examples and came in other files: each tells the lines and shards of its own files."""

import hashlib
import json

import pytest

from datasets import operations, queries, render
from datasets.models import ExampleSet, OwnFiles
from datasets.operations import Announced, create_dataset, name_dataset, register_dataset
from datasets.plan import dataset_part
from datasets.queries import example_set, version_of_files
from datasets.row_pages import read_page
from datasets.views.kin import versions_tab
from optimize_site.kernel.auth import LOCAL
from registry.queries import get_artifact, list_versions
from tests import factories as make

pytestmark = pytest.mark.django_db


def row(asked, answer="no"):
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": messages}).encode() + b"\n"


ROWS = [row("a"), row("b"), row("a"), row("c")]


def in_shards(*bodies, reference="second/rows"):
    shards = [(hashlib.sha256(body).hexdigest(), len(body)) for body in bodies]
    upload, _ = operations.open_upload(Announced(reference, shards), actor=LOCAL)
    for item, body in zip(upload.planned, bodies, strict=True):
        operations.put_shard(upload, item["path"], [body], actor=LOCAL)
    return operations.complete_upload(upload, actor=LOCAL)


@pytest.fixture
def first():
    """The rows in one file without a blank line."""
    return register_dataset("first/rows", [b"".join(ROWS)], actor=LOCAL).version


def places(version):
    return [(found["path"], found["line"]) for found in read_page(version)["rows"]]


def repeated_at(version):
    return {finding["code"]: finding["lines"] for finding in example_set(version).findings}.get("repeated_rows")


def test_a_version_shows_the_lines_and_shards_of_its_own_files(first):
    second = in_shards(ROWS[0] + b"\n" + ROWS[1], ROWS[2] + ROWS[3]).version
    assert second.content_hash == first.content_hash and ExampleSet.objects.count() == 1
    assert places(first) == [("examples.jsonl", line) for line in (1, 2, 3, 4)]
    assert places(second) == [("examples-00000.jsonl", 1), ("examples-00000.jsonl", 3),
                              ("examples-00001.jsonl", 1), ("examples-00001.jsonl", 2)]
    assert (repeated_at(first), repeated_at(second)) == ([3], [4])
    shown = [render.dataset_version(version) for version in (first, second)]
    assert [document["blankLines"] for document in shown] == [0, 1]
    assert [document["sizeBytes"] for document in shown] == [len(b"".join(ROWS)), len(b"".join(ROWS)) + 1]


def test_a_job_reads_the_files_of_the_version_that_is_named(first):
    second = in_shards(ROWS[0] + ROWS[1], ROWS[2] + ROWS[3]).version
    for version, number in ((first, 1), (second, 2)):
        assert dataset_part(example_set(version), name="d")["files"] == queries.dataset_files(version)
        assert len(queries.dataset_files(version)) == number


def test_another_name_for_a_version_keeps_its_files(first):
    loose = create_dataset([b"\n" + b"".join(ROWS)], actor=LOCAL).version
    named = name_dataset("plain", loose.reference, actor=LOCAL).version
    assert places(named) == places(loose) == [("examples.jsonl", line) for line in (2, 3, 4, 5)]
    assert repeated_at(named) == [4]


def test_the_same_file_under_another_name_needs_no_files_of_its_own(first):
    register_dataset("second/rows", [b"".join(ROWS)], actor=LOCAL)
    again = register_dataset("first/rows", [b"\n" + b"".join(ROWS)], actor=LOCAL)
    assert not again.is_new and places(again.version) == places(first)
    assert not OwnFiles.objects.exists()


def test_an_analysis_that_versions_share_says_whose_lines_it_names(first):
    from datasets.analyses.operations import start_analysis
    from datasets.analyses.render import analysis_document
    from registry.base_model_queries import get_base_model

    make.make_base_model()
    second = in_shards(ROWS[0] + ROWS[1], ROWS[2] + ROWS[3]).version
    started = start_analysis(example_set(second), get_base_model(make.TINY), actor=LOCAL)
    assert version_of_files(second.content_hash) == first
    document = analysis_document(started.analysis)
    assert document["placesOf"] == "first/rows:v1"
    assert len(dataset_part(type(started.analysis).objects.get().examples, name="d")["files"]) == 1


def test_lists_show_the_size_of_a_versions_own_files(first):
    second = in_shards(ROWS[0] + b"\n" + ROWS[1], ROWS[2] + ROWS[3]).version
    sizes = {row.reference: row.size_bytes for row in queries.list_datasets()}
    whole = len(b"".join(ROWS))
    assert sizes == {"first/rows": whole, "second/rows": whole + 1}
    held = queries.example_sets([first, second])
    assert [held[version.pk].size_bytes for version in (first, second)] == [whole, whole + 1]


def test_the_versions_of_a_page_show_the_size_of_their_own_files(first):
    register_dataset("second/rows", [row("other")], actor=LOCAL)
    second = in_shards(ROWS[0] + b"\n" + ROWS[1], ROWS[2] + ROWS[3]).version
    shown = versions_tab(None, second, example_set(second))["versions"]
    assert [found["examples"].size_bytes for found in shown] == [len(b"".join(ROWS)) + 1, len(row("other"))]


def test_a_list_of_versions_asks_no_more_for_more_of_them(django_assert_num_queries):
    for number in range(4):
        register_dataset("first/rows", [row(f"version {number}")], actor=LOCAL)
    versions = list(list_versions(get_artifact("dataset", "first/rows")))
    with django_assert_num_queries(2):
        shown = render.dataset_summaries(versions)
    assert [document["exampleCount"] for document in shown] == [1] * 4
