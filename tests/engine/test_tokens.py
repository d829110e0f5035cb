"""Reading a dataset into tokens and masks: what is refused, and what the refusal says."""

import json

import pytest
import tiny
from optimize_child.failures import JobFailure
from optimize_child.reading.token_rows import IGNORED
from optimize_child.reading.tokens import Reading, read_tokens
from optimize_child.rendering.masks import Policy
from optimize_child.rendering.template import ChatTemplate
from test_masks import call, say, stock

LAST = Policy()
ROW = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}
LONG = {"messages": [{"role": "user", "content": "late " * 300}, {"role": "assistant", "content": "a b c"}]}


@pytest.fixture
def read(tokenizer, write_rows):
    chat = ChatTemplate(tokenizer)

    def read(rows, *, limit=64, truncation="error", column=None, policy=LAST):
        files = [write_rows(rows)] if isinstance(rows, list) else [rows]
        return read_tokens(files, chat, Reading(policy, limit, truncation, column), lambda _done: None)

    return read


def test_a_row_is_kept_as_its_tokens_and_its_labels(read, tokenizer):
    rows = read([ROW, ROW])
    ids, labels = rows.row(1)
    assert len(rows) == 2
    assert tokenizer.decode(labels[labels != IGNORED]) == "hello<|im_end|>"
    assert all(label in (IGNORED, token) for token, label in zip(ids, labels, strict=True))


@pytest.mark.requirement("R324")
def test_every_bad_row_is_named_by_its_line_with_its_reason(tmp_path, read):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + '\n\n{"messages": []}\n' + json.dumps(ROW) + "\nnot json\n")
    with pytest.raises(JobFailure) as info:
        read(path)
    assert info.value.code == "bad_row"
    assert "2 rows cannot be trained on. line 3: messages: " in info.value.reason
    assert "line 5: The line is not JSON: Expecting value, at character 1." in info.value.reason


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path, read):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(ROW).encode() + b"\r\n" + json.dumps(ROW).encode())
    assert len(read(path)) == 2


def test_rows_of_a_sharded_dataset_are_named_with_their_shard(tokenizer, tmp_path):
    good, bad = tmp_path / "examples-00000.jsonl", tmp_path / "examples-00001.jsonl"
    good.write_text(json.dumps(ROW) + "\n")
    bad.write_text("{}\n")
    reading = Reading(Policy(), 64, "error", None)
    with pytest.raises(JobFailure, match=r"line 1 of examples-00001\.jsonl"):
        read_tokens([good, bad], ChatTemplate(tokenizer), reading, lambda _done: None)


@pytest.mark.requirement("R090", "R091")
def test_f01_a_row_longer_than_the_limit_is_refused_with_its_line_and_length(read):
    with pytest.raises(JobFailure) as info:
        read([ROW, LONG])
    assert info.value.code == "row_too_long"
    assert info.value.reason.startswith("1 row longer than maxSeqLength 64: line 2 (")
    assert info.value.evidence["rows"][0]["line"] == "line 2"
    assert info.value.evidence["rows"][0]["tokens"] > 300


def test_the_longest_rows_are_named_first_and_twenty_at_most(read):
    rows = [{"messages": [{"role": "user", "content": "late " * (70 + n)}, ROW["messages"][1]]} for n in range(25)]
    with pytest.raises(JobFailure, match="and 5 more") as info:
        read(rows)
    lengths = [row["tokens"] for row in info.value.evidence["rows"]]
    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) == 20


def test_f44_a_row_of_one_token_too_many_is_refused_and_one_less_is_not(read):
    length = int(read([ROW], limit=10_000).lengths()[0])
    assert len(read([ROW], limit=length)) == 1
    with pytest.raises(JobFailure):
        read([ROW], limit=length - 1)


@pytest.mark.requirement("R095")
def test_drop_leaves_long_rows_out_and_counts_them(read):
    rows = read([ROW, LONG, ROW], truncation="drop")
    assert (len(rows), rows.too_long) == (2, 1)


@pytest.mark.requirement("R095")
def test_drop_with_no_row_left_is_refused(read):
    with pytest.raises(JobFailure, match="No row of the training dataset is left") as info:
        read([LONG], truncation="drop")
    assert info.value.code == "nothing_to_train"


def test_f01_a_row_without_a_token_to_train_is_refused_by_its_line(write_rows):
    bare = tiny.make_tokenizer(template="{% for m in messages %}{{ m['content'] | trim }}{% endfor %}")
    silent = {"messages": [ROW["messages"][0], {"role": "assistant", "content": "  "}]}
    with pytest.raises(JobFailure, match="1 row without a token to train on: line 2") as info:
        read_tokens(
            [write_rows([ROW, silent, ROW])], ChatTemplate(bare), Reading(Policy(), 64, "error"), lambda _done: None
        )
    assert info.value.code == "nothing_to_train"


@pytest.mark.requirement("R135", "R136")
def test_an_explicit_mask_is_the_mask_and_a_missing_one_leaves_the_policy(read, tokenizer):
    ids, _ = read([ROW], limit=1000).row(0)
    mask = [0] * len(ids)
    mask[5] = 1
    rows = read([{**ROW, "weights": mask}, {**ROW, "weights": None}, ROW], column="weights")
    assert (rows.row(0)[1] != IGNORED).tolist() == [bool(bit) for bit in mask]
    assert tokenizer.decode(rows.row(1)[1][rows.row(1)[1] != IGNORED]) == "hello<|im_end|>"
    assert rows.masked == 1


@pytest.mark.requirement("R137")
@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        ([], "not a list of 0 and 1"),
        ("0101", "not a list of 0 and 1"),
        ([0, 2], "not a list of 0 and 1"),
        ([False, True], "not a list of 0 and 1"),
        ([1, 0], "selects the first token"),
        ([0, 0], "selects no token"),
        ([0, 1], "has 2 entries and the row has"),
    ],
)
def test_f11_a_mask_that_cannot_be_one_is_refused_by_name(read, mask, reason):
    with pytest.raises(JobFailure, match=reason) as info:
        read([{**ROW, "weights": mask}], column="weights")
    assert "line 1" in info.value.reason


@pytest.mark.requirement("R135", "R137")
def test_f11_a_mask_over_parallel_results_is_one_bit_a_token_of_the_merged_rendering(write_rows):
    chat = stock("qwen3")
    asked = {"role": "assistant", "content": "", "tool_calls": [call(id_="c1", n=1), call(id_="c2", n=2)]}
    results = [{"role": "tool", "tool_call_id": id_, "name": "track", "content": "in Lyon"} for id_ in ("c1", "c2")]
    messages = [*say("both?"), asked, *results, {"role": "assistant", "content": "Both in Lyon."}]
    length = len(chat.tokenize([chat.render(messages)])[0][0])

    def read(entries):
        row = {"messages": messages, "weights": [*[0] * (entries - 1), 1]}
        return read_tokens([write_rows([row])], chat, Reading(LAST, 4000, "error", "weights"), lambda _done: None)

    assert read(length).trained_tokens() == 1
    with pytest.raises(JobFailure, match=f"line 1: weights has {length + 1} entries and the row has {length} tokens"):
        read(length + 1)


def test_rows_with_images_are_refused_by_a_text_run(read):
    row = {"messages": [{"role": "user", "content": [{"type": "image", "path": "a.png"}]}, ROW["messages"][1]]}
    with pytest.raises(JobFailure, match="the row has images"):
        read([row])


def test_the_progress_of_reading_is_told(tokenizer, write_rows):
    seen = []
    path = write_rows(tiny.ticket_rows(300))
    read_tokens([path], ChatTemplate(tokenizer), Reading(Policy(), 512, "error"), seen.append)
    assert seen == [256, 300]
