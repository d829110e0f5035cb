"""Rows of registered datasets: by position whatever their number, by their words, large ones cut, repeats noted."""

import json
from types import SimpleNamespace

import pytest

from datasets import stored_rows
from datasets.errors import RowsGone, RowsNotSearchable, RowUnknown
from datasets.models import ExampleSet
from datasets.queries import example_set
from datasets.row_pages import Budget, read_page
from optimize_site.kernel.blobs import put_stream
from optimize_site.kernel.errors import InvalidInput
from tests import factories as make

pytestmark = pytest.mark.django_db


def row(asked, answer="no", **columns):
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": messages} | columns).encode()


def version_of(*shards):
    """A dataset whose rows lie in as many objects."""
    version = make.make_dataset("triage/train", row("stands for what is laid under it"))
    listing, blobs = [], [put_stream([b"\n".join(shard) + b"\n"]) for shard in shards]
    for number, (blob, shard) in enumerate(zip(blobs, shards, strict=True)):
        rows = sum(bool(line.strip()) for line in shard)
        listing.append({"path": f"examples-{number:05}.jsonl", "sha256": blob.sha256, "bytes": blob.size_bytes,
                        "examples": rows})
    ExampleSet.objects.filter(pk=version.content_hash).update(
        shards=listing, num_examples=sum(shard["examples"] for shard in listing), size_bytes=sum(
            shard["bytes"] for shard in listing))
    return version


def positions(page):
    return [found["position"] for found in page["rows"]]


def ticking(seconds):
    """A budget whose clock goes on by a second with every look."""
    times = iter(range(10_000))
    return Budget(seconds=seconds, clock=lambda: next(times))


def test_rows_are_read_by_position_with_the_line_they_stand_at():
    version = version_of([b"", *(row(f"question {number}", ticket=number) for number in range(35))])
    page = read_page(version, offset=30, limit=3)
    assert [(found["position"], found["line"]) for found in page["rows"]] == [(30, 32), (31, 33), (32, 34)]
    assert (page["total"], page["nextOffset"]) == (35, 33)
    assert page["rows"][0]["columns"] == {"ticket": 30}
    assert read_page(version, offset=34)["nextOffset"] is None
    assert read_page(version, offset=99)["rows"] == []


@pytest.mark.requirement("R126")
def test_a_sample_is_all_rows_within_both_limits_and_else_those_each_object_begins_with():
    version = version_of(*([row(f"q{shard}{number}") for number in range(rows)] for shard, rows in
                           enumerate([3, 5, 4, 4])))
    examples, two = example_set(version), 2 * len(row("q00"))

    def sampled(rows, bytes_):
        return [found.position for found in stored_rows.sampled_rows(examples, rows, bytes_)]

    assert sampled(16, examples.size_bytes) == list(range(16))
    assert sampled(15, examples.size_bytes) == [0, 1, 2, 3, 4, 5, 8, 9, 10, 12, 13, 14]
    assert sampled(16, 4 * two) == sampled(8, 10**6) == [0, 1, 3, 4, 8, 9, 12, 13]
    assert sampled(16, 4 * two - 1) == [0, 3, 8, 12]


def test_rows_of_several_objects_are_one_sequence():
    version = version_of([row(f"a{number}") for number in range(5)], [row("b0"), b"", row("b1")], [row("c0")])
    page = read_page(version, offset=4, limit=3)
    assert [(found["position"], found["path"], found["line"]) for found in page["rows"]] == [
        (4, "examples-00000.jsonl", 5), (5, "examples-00001.jsonl", 1), (6, "examples-00001.jsonl", 3)]
    assert positions(read_page(version, offset=7)) == [7]


def test_a_row_far_in_is_reached_through_an_index_that_is_made_once_and_again_where_it_is_gone(monkeypatch):
    version = version_of([row(f"question {number}" + "x" * 2000) for number in range(300)])
    part = stored_rows.parts_of(example_set(version))[0]
    assert positions(read_page(version, offset=290, limit=2)) == [290, 291]
    index = stored_rows.index_path(part.shard["sha256"])
    made = index.stat().st_mtime_ns
    read_page(version, offset=123, limit=1)
    assert index.stat().st_mtime_ns == made
    begun = []
    monkeypatch.setattr(stored_rows, "read_rows", lambda file, place: begun.append(place.row) or iter(()))
    read_page(version, offset=290, limit=2)
    assert 150 < begun[0] <= 290
    monkeypatch.undo()
    index.unlink()
    assert positions(read_page(version, offset=290, limit=2)) == [290, 291]


def test_words_are_searched_for_inside_one_message():
    version = version_of([row(f"question {number}", "Use the  Blue\nbutton" if number % 10 == 3 else "no")
                          for number in range(35)])
    found = read_page(version, search="blue BUTTON", limit=2)
    assert (positions(found), found["nextOffset"]) == ([3, 13], 23)
    assert positions(read_page(version, search="blue button", offset=23)) == [23, 33]
    assert read_page(version, search="button blue")["rows"] == []


def test_a_search_over_more_than_its_time_says_where_to_go_on(monkeypatch):
    monkeypatch.setattr("datasets.row_index.MARK_BYTES", 300)
    rows = [row(f"question {number}" if number != 77 else "here is the needle") for number in range(100)]
    version = version_of(rows[:50], rows[50:])
    offset, offsets, found = 0, [], []
    while offset is not None:
        page = read_page(version, offset=offset, search="the NEEDLE", budget=Budget(num_bytes=900))
        offsets, found, offset = [*offsets, offset], found + positions(page), page["nextOffset"]
    assert found == [77]
    assert len(offsets) > 5 and offsets == sorted(set(offsets))
    assert read_page(version, search="needle", budget=ticking(3))["nextOffset"] < 50
    assert positions(read_page(version, search="needle", offset=77)) == [77]
    assert positions(read_page(version, search="needle", offset=78)) == []


@pytest.mark.parametrize("words", ["übermut tut", "\u212aelvin scale", "quote \"x\"", "tab\there"])
def test_what_a_block_of_rows_may_hold_is_never_passed_over(words):
    rows = [row("filler " * 30) for _ in range(20)]
    for written in (row(f"so {words.upper()} it is"),
                    json.dumps(json.loads(row(f"so {words} it is")), ensure_ascii=False).encode()):
        assert positions(read_page(version_of([*rows, written]), search=words)) == [20]


def test_a_row_that_stands_more_than_once_says_where():
    again = row("same", ticket=1)
    version = version_of([row("a"), again, row("b"), again], [again, row("c")])
    page = read_page(version, offset=1, limit=2)
    assert page["rows"][0]["repeats"] == {"count": 2, "positions": [3, 4]}
    assert page["rows"][1]["repeats"] == {"count": 0, "positions": []}
    assert page["repeats"] == {"compared": 6, "total": 6}


def test_a_large_row_is_cut_and_its_bytes_come_whole_through_its_own_route(client_of):
    large = row("q" * 300_000, "the answer")
    make.make_dataset("triage/large", large + b"\n" + row("small"))
    client = client_of("viewer")
    base = "/v1/registry/datasets/triage/large/versions/v1/rows"
    answer = client.get(base)
    first, second = answer.json()["rows"]
    assert first["isCut"] and first["bytes"] == len(large) and not second["isCut"]
    assert len(answer.content) < 80_000
    assert first["messages"][-1]["content"] == "the answer"
    whole = client.get(f"{base}/0")
    assert b"".join(whole.streaming_content) == large
    assert "row-0.jsonl" in whole["Content-Disposition"]
    assert client.get(f"{base}/2").json()["code"] == "unknown_row"


@pytest.fixture
def client_of(db, settings):
    from django.test import Client

    from optimize_site.kernel import accounts
    from optimize_site.kernel.auth import LOCAL

    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

    def sign_in(role):
        user, _ = accounts.create_user(f"a-{role}", role, actor=LOCAL)
        client = Client()
        client.force_login(user)
        return client
    return sign_in


@pytest.mark.parametrize(("asked", "code"), [({"limit": 101}, "invalid_limit"), ({"limit": 0}, "invalid_limit"),
                                             ({"offset": -1}, "invalid_offset"), ({"search": "x" * 201},
                                                                                  "invalid_search")])
def test_what_cannot_be_asked_is_refused_with_both_values(asked, code):
    with pytest.raises(InvalidInput) as refused:
        read_page(version_of([row("a")]), **asked)
    assert refused.value.code == code


def test_bytes_that_are_gone_and_rows_that_are_not_there_are_said_to_be():
    version = version_of([row("a")])
    examples = example_set(version)
    with pytest.raises(RowUnknown):
        stored_rows.row_at(examples, 1)
    with pytest.raises(RowUnknown):
        stored_rows.row_at(examples, -1)
    stored_rows.parts_of(examples)[0].file.unlink()
    with pytest.raises(RowsGone):
        read_page(version)


def prepared_version():
    """Token rows of two row groups."""
    import io

    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({"input_ids": [[number, number + 1, 9] for number in range(10)],
                           "loss_mask": [[0, 1, 1]] * 10, "note": ["x"] * 10})
    file = io.BytesIO()
    parquet.write_table(table, file, row_group_size=4)
    version = version_of([row("a")])
    blob = put_stream([file.getvalue()])
    ExampleSet.objects.filter(pk=version.content_hash).update(
        format="prepared-tokens-v1", num_examples=10, details={"tokenizer": {"repository": make.TINY,
                                                                             "revision": "rev-1"}},
        shards=[{"path": "rows.parquet", "sha256": blob.sha256, "bytes": blob.size_bytes, "examples": 10}])
    return version


def test_token_rows_are_read_by_position_and_have_no_words():
    version = prepared_version()
    page = read_page(version, offset=6, limit=2)
    assert [(found["position"], found["ids"], found["trained"]) for found in page["rows"]] == [
        (6, [6, 7, 9], [[1, 3]]), (7, [7, 8, 9], [[1, 3]])]
    assert page["rows"][0]["trainedTokens"] == 2
    with pytest.raises(RowsNotSearchable):
        read_page(version, search="word")


def test_token_rows_are_text_where_their_tokenizer_lies_here(client_of):
    prepared_version()
    base = make.make_base_model()
    folder = make.put_weights(base)
    client, address = client_of("viewer"), "/v1/registry/datasets/triage/train/versions/v1/rows?limit=1&offset=1"
    assert "token ids" in client.get(address).json()["tokens"]["note"]
    from optimize_site.kernel.conf import home

    (home() / folder.folder / "tokenizer.json").write_text(json.dumps({
        "decoder": {"type": "ByteLevel"}, "model": {"vocab": {f"w{number}": number for number in range(20)}}}))
    found = client.get(address).json()
    assert found["rows"][0]["text"] == [{"text": "w1", "isTrained": False}, {"text": "w2w9", "isTrained": True}]
    assert found["tokens"] == {"model": make.TINY, "revision": "rev-1", "status": "done", "note": ""}


def test_rows_show_their_tokens_once_they_are_analysed(client_of):
    version = make.make_dataset("triage/train", 3)
    make.make_base_model()
    client, address = client_of("viewer"), f"/v1/registry/datasets/triage/train/versions/v1/rows?model={make.TINY}"
    assert f"datasets analyze triage/train:v1 --model {make.TINY}" in client.get(address).json()["tokens"]["note"]
    make.analyze(version, [10, (20, 15), 30])
    found = client.get(address).json()
    assert found["rows"][1]["tokens"] == {"length": 20, "trimmed": 15, "trained": 1, "trainedAll": 2}
    assert found["tokens"]["status"] == "done"
    assert client.get(address.replace("tiny", "nobody")).status_code == 404


def test_a_page_of_rows_is_the_same_from_the_command(capsys):
    from datasets.management.commands.datasets import Command

    version_of([row("a"), row("b"), row("a")])
    assert Command().run(["rows", "triage/train", "--limit", "2", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (positions(found), found["nextOffset"]) == ([0, 1], 2)
    assert Command().run(["rows", "triage/train"]) == 0
    shown = capsys.readouterr().out
    assert "also row 2" in shown
    for nothing in (["--offset", "3"], ["--search", "nobody says this"]):
        assert Command().run(["rows", "triage/train", *nothing]) == 0
        assert "the dataset has 3 rows" in capsys.readouterr().err
    assert Command().run(["rows", "triage/train", "--limit", "0"]) == 2
    assert "limit is 0" in capsys.readouterr().err
    assert Command().run(["rows", "triage/train", "--raw", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["messages"][0]["content"] == "b"


def test_a_dataset_of_another_kind_shows_its_items():
    version = version_of([json.dumps({"id": "i-1", "input": {"question": "how much?"}}).encode()])
    ExampleSet.objects.filter(pk=version.content_hash).update(format="eval-items-v1")
    page = read_page(version, search="HOW much")
    assert page["rows"][0]["item"]["id"] == "i-1"


def test_time_that_is_up_leaves_repeats_uncounted_and_says_so():
    from datasets.row_repeats import note_repeats

    examples = example_set(version_of([row("a"), row("a")]))
    rows = [stored_rows.row_at(examples, 0)]
    documents = [{"position": 0}]
    assert note_repeats(examples, rows, documents, SimpleNamespace(is_spent=True)) == {"compared": 0, "total": 2}
    assert documents[0]["repeats"]["count"] == 0
