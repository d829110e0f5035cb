"""Registering data: through the operation, and read back through the queries."""

import hashlib
import json
import tracemalloc
from pathlib import Path

import pytest

from datasets import operations, queries
from datasets.errors import DatasetInvalid, DatasetTooLarge, DiskFull, FormatMismatch, FormatUnknown
from datasets.lines import MAX_LINE_BYTES
from datasets.models import ExampleSet
from datasets.operations import intake
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.blobs import blob_path, open_blob
from optimize_site.kernel.errors import Forbidden
from optimize_site.kernel.models import Blob, Event
from registry.models import Version
from registry.queries import get_artifact, resolve_version

pytestmark = pytest.mark.django_db
OPERATOR = Actor("olga", "operator")


def row(question="Where is my parcel?", answer="On its way.", **more):
    return json.dumps({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
                       **more}, ensure_ascii=False).encode()


def register(body, reference="support/train", **more):
    return operations.register_dataset(reference, [body] if isinstance(body, bytes) else body, actor=OPERATOR, **more)


def refusal(body, **more):
    with pytest.raises(DatasetInvalid) as info:
        register(body, **more)
    return info.value


@pytest.mark.requirement("R020")
def test_a_file_becomes_an_immutable_version_named_by_its_content():
    body = row("a") + b"\n" + row("b") + b"\n"
    done = register(body)
    assert done.is_new
    assert done.version.reference == "support/train:v1"
    assert done.version.content_hash == hashlib.sha256(row("a") + b"\n" + row("b")).hexdigest()
    assert done.version.objects_listing == [{"path": "examples.jsonl", "bytes": len(body),
                                             "sha256": hashlib.sha256(body).hexdigest()}]
    assert (done.examples.num_examples, done.examples.format) == (2, "chat-jsonl-v1")
    assert [Path(path).read_bytes() for path in queries.dataset_files(done.version)] == [body]
    assert list(Event.objects.values_list("type", "actor")) == [("dataset.registered", "olga")]


@pytest.mark.requirement("R020")
def test_the_same_examples_give_the_same_version_however_the_file_is_written():
    first = register(row("a") + b"\n" + row("b") + b"\n")
    for same in (row("a") + b"\n" + row("b"), row("a") + b"\r\n\r\n" + row("b") + b"\r\n",
                 b"\xef\xbb\xbf" + row("a") + b"\n \t\n" + row("b"), [row("a")[:5], row("a")[5:] + b"\n", row("b")]):
        again = register(same)
        assert (again.version.pk, again.is_new) == (first.version.pk, False)
    assert register(row("b") + b"\n" + row("a")).version.number == 2
    assert Event.objects.filter(type="dataset.registered").count() == 2


def test_the_same_examples_under_another_name_share_their_bytes():
    one, other = register(row()), register(row(), "support/other")
    assert other.is_new
    assert other.version.number == 1
    assert one.version.digest == other.version.digest
    assert ExampleSet.objects.count() == Blob.objects.count() == 1


@pytest.mark.requirement("R313")
def test_kept_files_can_be_read_by_every_account_of_the_machine():
    done = register(row())
    assert blob_path(done.version.objects_listing[0]["sha256"]).stat().st_mode & 0o444 == 0o444


def test_letters_that_only_look_alike_are_other_examples():
    composed, decomposed = register(row("é")), register(row("e\u0301"))
    assert composed.version.content_hash != decomposed.version.content_hash
    assert decomposed.version.number == 2


@pytest.mark.requirement("R316", "R324")
def test_a_bad_file_is_refused_whole_with_every_bad_line():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {}}}
    shared = json.dumps({"messages": [{"role": "assistant", "tool_calls": [call, call]}]}).encode()
    error = refusal(b"\n".join([row(), b"{", b"", row(answer=7), shared]))
    assert error.code == "dataset_invalid"
    assert [(problem.path, problem.code) for problem in error.problems] == [
        ("line 2", "not_json"), ("line 4: messages[1].content", "content_invalid"),
        ("line 5: messages[0].tool_calls[1].id", "tool_call_id_repeated")]
    assert all(problem.hint for problem in error.problems)
    assert error.detail.startswith("3 of 4 lines are not a chat row")
    assert not Version.objects.exists()
    assert not Blob.objects.exists()


def test_the_first_twenty_bad_lines_are_shown_and_the_rest_counted():
    error = refusal(b"\n".join([b"{}"] * 45 + [row()]))
    assert len({problem.path for problem in error.problems}) == 20
    assert (error.data["badLines"], error.data["moreBadLines"]) == (45, 25)
    assert "25 more" in error.detail


def test_a_broken_last_line_of_ten_thousand_is_named():
    error = refusal(b"\n".join([row()] * 9_999 + [b'{"messages": [{"role": "user", "content": "say "hi""}]}']))
    assert [problem.path for problem in error.problems] == ["line 10000"]


@pytest.mark.parametrize(("body", "code"), [
    (b"", "empty_file"), (b"\n \n\r\n", "empty_file"), (b"\xef\xbb\xbf", "empty_file"),
    (b"[" + row() + b"]", "json_array"), (b"[\n " + row() + b"\n]", "json_array"),
    (b"\xef\xbb\xbf\n\n  [", "json_array"), (b"[" + b" " * (MAX_LINE_BYTES + 1), "json_array"),
    (json.dumps(json.loads(row()), indent=1).encode(), "pretty_printed"),
    (row().decode().encode("utf-16"), "utf16_file"), (row().decode().encode("utf-16-be"), "binary_file"),
    (b"\x1f\x8b\x08\x00rest", "gzip_file"), (b"PAR1rest", "parquet_file"),
])
def test_a_file_of_another_form_is_told_what_to_do(body, code):
    for chunks in ([body], [body[index:index + 1] for index in range(min(len(body), 64))] + [body[64:]]):
        error = refusal(chunks)
        assert [problem.code for problem in error.problems] == [code]
        assert error.hint
    assert not Blob.objects.exists()


@pytest.mark.parametrize("text", ["👩‍👩‍👧", "é", "e\u0301", "שלום", "𝔘\t\r\n", "<|im_end|>"])
def test_letters_of_several_bytes_are_kept_wherever_a_file_is_cut_on_its_way(text):
    body = row(text) + b"\n" + row(text * 3)
    done = register(body[at:at + 1] for at in range(len(body)))
    assert done.version.content_hash == hashlib.sha256(body).hexdigest()
    assert [Path(path).read_bytes() for path in queries.dataset_files(done.version)] == [body]


def test_an_array_is_offered_its_conversion():
    assert "jq -c '.[]'" in refusal(b"[]").hint


def test_a_byte_order_mark_inside_the_file_is_refused():
    error = refusal(row() + b"\n\xef\xbb\xbf" + row())
    assert [(problem.path, problem.code) for problem in error.problems] == [("line 2", "byte_order_mark")]


def test_only_lf_ends_a_line():
    done = register(row("a\u2028b\u2029c\x85") + b"\n" + row("d"))
    assert done.examples.num_examples == 2
    assert refusal(row() + b"\r" + row()).problems[0].code == "not_json"


def test_a_line_beyond_the_limit_is_refused_without_being_held():
    def body():
        yield row() + b'\n{"messages": "'
        for _ in range(64):
            yield b"x" * (1 << 20)
        yield b'"}\n' + row()

    tracemalloc.start()
    try:
        error = refusal(body())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [(problem.path, problem.code) for problem in error.problems] == [("line 2", "line_too_long")]
    assert peak < 3 * MAX_LINE_BYTES


@pytest.mark.requirement("R303")
def test_a_large_file_is_read_in_constant_memory():
    chunk = (row("x" * 20_000) + b"\n") * 50

    tracemalloc.start()
    try:
        done = register(chunk for _ in range(40))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.examples.num_examples == 2_000
    assert done.examples.size_bytes > 40_000_000
    assert peak < 16 << 20


@pytest.mark.requirement("R303")
def test_the_limit_can_be_used_in_full_and_not_a_byte_more(monkeypatch):
    body = row() + b"\n"
    monkeypatch.setenv("OPTIMIZE_TRAINER_DATASETS_MAX_BYTES", str(len(body)))
    assert register(body, length=len(body)).is_new
    with pytest.raises(DatasetTooLarge):
        register([body, b"\n"])


@pytest.mark.requirement("R303")
def test_the_limit_is_256_mib_unless_the_settings_say_otherwise():
    def never_read():
        raise AssertionError("a file known to be too large is not read")
        yield b""

    with pytest.raises(DatasetTooLarge) as info:
        register(never_read(), length=256 * 1024 * 1024 + 1)
    assert "256 MiB" in info.value.detail
    assert info.value.status == 413


def test_a_full_disk_is_said_to_be_full(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(intake, "keep_scratch", full)
    with pytest.raises(DiskFull) as info:
        register(row())
    assert info.value.status == 507


def test_a_viewer_may_not_register():
    with pytest.raises(Forbidden):
        operations.register_dataset("support/train", [row()], actor=Actor("vera", "viewer"))


def test_another_format_is_refused_by_name():
    with pytest.raises(FormatUnknown, match=r"no format csv; .*chat-jsonl-v1"):
        register(row(), format="csv")
    with pytest.raises(FormatMismatch, match="chat-jsonl-v1, not preference-jsonl-v1"):
        register(row(), format="preference-jsonl-v1")
    assert register(row(), format="chat-jsonl-v1").is_new


def test_statistics_and_findings_say_what_the_rows_are():
    tools = [{"type": "function", "function": {"name": "f"}}]
    rows = [row("a", '{"queue": "billing", "urgent": true}'), row("b", '{"queue": "billing", "urgent": false}'),
            row("a", '{"queue": "billing", "urgent": true}'), row("a", "plain"), row("c", "x", tools=tools)]
    examples = register(b"\n\n".join(rows)).examples
    assert examples.num_tool_rows == 1
    assert examples.num_blank_lines == 4
    assert examples.statistics["answers"] == {"json": 3, "text": 2}
    assert examples.statistics["fields"]["queue"]["top"] == [{"value": "billing", "rows": 3}]
    assert examples.statistics["turns"] == {"1": 5}
    found = {finding["code"]: finding["lines"] for finding in examples.findings}
    assert found["repeated_rows"] == [5]
    assert found["conflicting_answers"] == [7]


def test_text_labels_are_counted_where_answers_repeat():
    labels = register(b"\n".join([row("a", "yes"), row("b", "no"), row("c", "no"), row("d", "yes")])).examples
    assert labels.statistics["labels"]["top"] == [{"value": "no", "rows": 2}, {"value": "yes", "rows": 2}]


@pytest.mark.requirement("R020", "R051")
def test_a_bare_name_moves_and_what_it_named_stays():
    first = operations.create_dataset([row("a")], name="triage", actor=OPERATOR)
    second = operations.create_dataset([row("b")], name="triage", actor=OPERATOR)
    assert resolve_version("dataset", "triage").pk == second.version.pk
    operations.name_dataset("triage", first.version.content_hash, actor=OPERATOR)
    assert resolve_version("dataset", "triage").pk == first.version.pk
    assert resolve_version("dataset", "default/triage").pk == second.version.pk
    moves = get_artifact("dataset", "default/triage").alias_moves.order_by("pk")
    assert [move.version.number for move in moves] == [1, 2, 1]


@pytest.mark.requirement("R051")
def test_a_dataset_without_a_name_is_found_by_its_hash_and_a_prefix():
    done = operations.create_dataset([row()], actor=OPERATOR)
    for text in (done.version.content_hash, done.version.content_hash[:8], "sha256:" + done.version.content_hash):
        assert resolve_version("dataset", text).pk == done.version.pk
    listed = queries.list_example_sets().get()
    assert listed.names == []
    operations.name_dataset("triage", done.version.content_hash[:10], actor=OPERATOR)
    listed = queries.list_example_sets().get()
    assert listed.names == ["triage"]
    assert listed.references[1] == "default/triage:v1"


def test_named_datasets_are_listed_with_their_newest_version():
    register(row("a"))
    register(row("b") + b"\n" + row("c"))
    listed = queries.list_datasets(namespace="support").get()
    assert (listed.newest_number, listed.num_examples, listed.num_versions) == (2, 2, 2)
    assert not queries.list_datasets(namespace="other").exists()


def test_blobs_are_read_back_as_they_came():
    version = register(b"\xef\xbb\xbf" + row() + b"\r\n").version
    with open_blob(version.objects_listing[0]["sha256"]) as file:
        assert file.read() == b"\xef\xbb\xbf" + row() + b"\r\n"


def columns_of(*rows):
    return register(b"\n".join(row(**more) for more in rows)).examples.statistics["columns"]


def test_the_keys_that_rows_hold_of_their_own_are_counted():
    assert columns_of({}, {"tools": []}) == {}
    assert columns_of({"mask": [0, 1]}, {"mask": None}, {"id": 7, "mask": "x"}) == {"id": 1, "mask": 2}
    assert columns_of({f"key {number}": 1 for number in range(101)}) is None
