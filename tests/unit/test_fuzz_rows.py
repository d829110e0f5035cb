"""Rows nobody would write: the registry and the jobs judge each alike, and neither breaks over any."""

import copy
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.findings import MAX_COMPARED_ROWS
from datasets.formats.chat import ChatExaminer
from datasets.formats.preference import PairExaminer
from datasets.importers.convert import KINDS
from datasets.importers.records import Record, RecordRefused
from datasets.importers.report import Report
from datasets.lines import Batch
from datasets.pairs import read_pair
from datasets.rows import RowRefused, arguments_of, read_row

sys.path.append(str(Path(__file__).resolve().parents[2] / "gpu_worker" / "child"))
import optimize_child.reading.rows as JOB  # the rule on the job's side, which imports no library

CASES = json.loads((Path(__file__).resolve().parents[1] / "row_cases.json").read_text())
few = settings(max_examples=60)
RULES = {"chat": (read_row, JOB.check_row), "pair": (read_pair, JOB.check_pair)}


def judged(line: bytes, rule: str) -> tuple[list, list]:
    """All that is wrong with a line, each with its place, code and sentence, as the registry and as a job say it."""
    server, job = RULES[rule]
    try:
        server(line)
        here = []
    except RowRefused as error:
        here = [(problem.path, problem.code, problem.message) for problem in error.problems]
    try:
        there = [tuple(problem) for problem in job(JOB.read_row(line))]
    except JOB.LineRefused as error:
        there = [tuple(error.problem)]
    return here, there


TEXTS = st.sampled_from([
    "", " ", "a", "🏳️‍🌈", "é", "e\u0301", "<|im_end|>", "\r\n\t", "מה", "x" * 300, '{"a": 1}', "null"])
ODD = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False) | TEXTS | st.just([]) | st.just({})
ARGUMENTS = st.sampled_from([{}, {"a": {"b": None}}, "{}", '{"a": 1, "a": 2}', '{"a": NaN}', "[]", "", None, 7])
PATHS = st.sampled_from(["a.png", "b/a.png", "../a", "/a", "C:a", "a\\b", "a//b", "", ".", "a\u202eb", "..%2fa"])
WORDS = st.sampled_from(["a", "b", "🏳️‍🌈 e\u0301", "<|im_end|>", "\r\n", '{"total": 1290}'])
CONTENTS = WORDS | WORDS.map(lambda word: [{"type": "text", "text": word}, {"type": "text", "text": word}])
PICTURES = st.tuples(WORDS, st.sampled_from(["a.png", "b/é.png"])).map(
    lambda both: [{"type": "image", "path": both[1]}, {"type": "text", "text": both[0]}])
CALL = st.tuples(st.sampled_from(["c1", "c2"]), st.sampled_from([{}, {"a": {"b": None}}, '{"a": 1}'])).map(
    lambda both: {"id": both[0], "type": "function", "function": {"name": "f", "arguments": both[1]}})
CALLS = st.lists(CALL, min_size=1, max_size=2, unique_by=lambda call: call["id"])
ANSWERS = st.one_of(CONTENTS.map(lambda text: {"role": "assistant", "content": text}),
                    st.tuples(CALLS, st.sampled_from([None, "", "a"])).map(
                        lambda both: {"role": "assistant", "content": both[1], "tool_calls": both[0]}))


def turn(asked, calls, said):
    """A user message, and perhaps calls with their results."""
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "1"} for call in reversed(calls or [])]
    called = [{"role": "assistant", "content": said, "tool_calls": calls}] if calls else []
    return [{"role": "user", "content": asked}, *called, *results]


TURNS = st.builds(turn, CONTENTS | PICTURES, st.none() | CALLS, st.sampled_from([None, "", "Let me look."]))
PROMPTS = st.tuples(st.booleans(), st.lists(TURNS, min_size=1, max_size=2)).map(
    lambda both: [{"role": "system", "content": "s"}] * both[0] + [message for turn in both[1] for message in turn])
TOOLS = st.sampled_from([None, [], [{"type": "function", "function": {"name": "f", "parameters": {"x": None}}}]])
GOOD_ROWS = st.builds(lambda prompt, answer, tools: {"messages": [*prompt, answer], "tools": tools}, PROMPTS, ANSWERS,
                      TOOLS)
GOOD_PAIRS = st.builds(lambda prompt, chosen, rejected, tools: {"prompt": prompt, "chosen": chosen,
                                                                "rejected": rejected, "tools": tools},
                       PROMPTS, ANSWERS, ANSWERS, TOOLS)
ROLES = st.sampled_from(["system", "user", "assistant", "tool", "human"])
DAMAGE = st.lists(st.tuples(st.floats(0, 0.999), st.sampled_from(["put", "cut", "twice"]),
                            ODD | ARGUMENTS | PATHS | ROLES | CALLS), max_size=2)


def places(value, holder=None, key=None):
    """Everywhere in a value, as what holds it and the step to it."""
    if holder is not None:
        yield holder, key
    for step, item in list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list)
                           else ()):
        yield from places(item, value, step)


def damaged(row, damage):
    """The row with odd values put in, cut out or repeated somewhere."""
    row = json.loads(json.dumps(row))
    for where, how, odd in damage:
        found = list(places(row))
        if not found:
            continue
        holder, key = found[int(where * len(found))]
        if how == "put":
            holder[key] = copy.deepcopy(odd)  # a value that is put into itself would have no end
        elif how == "cut":
            del holder[key]
        elif isinstance(holder, list):
            holder.insert(key, holder[key])
    return row


ROWS = st.builds(damaged, GOOD_ROWS, DAMAGE)
PAIRS = st.builds(damaged, GOOD_PAIRS, DAMAGE)


@pytest.mark.requirement("R324")
@given(ROWS, PAIRS)
@settings(max_examples=120)
def test_what_registration_takes_a_job_takes_and_what_it_refuses_a_job_refuses(row, pair):
    for rule, value in (("chat", row), ("pair", pair), ("chat", pair), ("pair", row)):
        here, there = judged(json.dumps(value).encode(), rule)
        assert here == there


LINES = [case["line"].encode() for case in CASES if len(case["line"]) < 600]
BYTES = st.sampled_from([
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"1",
    b"1e999", b"-", b"NaN", b"Infinity", b"null", b"\\u0000", b"\\ud83d", b"\\ud83d\\ude00", b" ",
    b"\r", b"\xef\xbb\xbf", b'"role"', b'"messages":', b"9" * 1001, b"0." + b"3" * 400])
PLACES = st.floats(0, 1)
CHANGES = st.lists(st.tuples(st.sampled_from(["put", "cut", "twice", "over"]), PLACES, st.integers(1, 40), BYTES),
                   min_size=1, max_size=4)


def changed(line: bytes, changes) -> bytes:
    for how, where, length, piece in changes:
        at = int(where * len(line))
        before, there, after = line[:at], line[at:at + length], line[at + length:]
        line = {"put": before + piece + there + after, "cut": before + after, "twice": before + there * 2 + after,
                "over": before + piece + after}[how]
    return line.replace(b"\n", b" ")


@pytest.mark.requirement("R324")
@given(st.sampled_from(LINES), CHANGES)
@settings(max_examples=200)
def test_damaged_bytes_are_judged_alike(line, changes):
    odd = changed(line, changes)
    for rule in RULES:
        here, there = judged(odd, rule)
        assert here == there, odd


@given(ROWS)
@few
def test_a_row_that_was_taken_can_be_read_by_a_job(row):
    line = json.dumps(row).encode()
    if judged(line, "chat")[0]:
        return
    read = JOB.read_row(line)
    assert JOB.tools_of(read) == (row.get("tools") or None)
    for message, plain in zip(row["messages"], JOB.messages_of(read), strict=True):
        assert isinstance(plain["content"], str)
        for call, called in zip(message.get("tool_calls") or [], plain.get("tool_calls", []), strict=True):
            assert called["function"]["arguments"] == arguments_of(call["function"]["arguments"])


@given(st.lists(st.sampled_from(LINES) | ROWS.map(lambda row: json.dumps(row).encode()), min_size=1, max_size=8))
@few
@pytest.mark.parametrize("kind", [ChatExaminer, PairExaminer])
def test_rows_looked_at_together_are_judged_as_each_is_alone(kind, lines):
    together, alone = kind(MAX_COMPARED_ROWS), kind(MAX_COMPARED_ROWS)
    wrong = {}
    for place in together.take(Batch(1, b"\n".join(lines))):
        wrong[place] = together.row(lines[place], place + 1)
    for place, line in enumerate(lines):
        assert bool(alone.row(line, place + 1)) == bool(wrong.get(place))
    assert together.facts() == alone.facts()


@given(st.lists(st.sampled_from(LINES), min_size=2, max_size=8), st.integers(1, 7))
@few
@pytest.mark.parametrize("kind", [ChatExaminer, PairExaminer])
def test_stretches_that_travelled_as_json_merge_into_the_whole(kind, lines, cut):
    whole, first, second = (kind(MAX_COMPARED_ROWS) for _ in range(3))
    for number, line in enumerate(lines, 1):
        whole.row(line, number)
        (first if number <= cut else second).row(line, number)
    merged = kind(0)
    merged.restore(json.loads(json.dumps(first.state())))
    merged.merge(second)
    assert merged.facts() == whole.facts()


VALUES = st.recursive(ODD, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
                      max_leaves=6)
NAMES = ("messages", "conversations", "input", "preferred_output", "non_preferred_output", "instruction", "output",
         "prompt", "chosen", "rejected", "tools", "functions", "system", "history", "reference_answer", "user",
         "assistant")
FIELDS = st.dictionaries(st.sampled_from(NAMES), VALUES | PROMPTS, max_size=4)


@given(FIELDS)
@few
def test_no_record_breaks_an_importer(fields):
    for name, kind in KINDS.items():
        try:
            row = kind.convert(Record(1, fields, Report(name, kind.format)))
        except RecordRefused as error:
            assert error.problem.message
            continue
        assert isinstance(row, dict)
