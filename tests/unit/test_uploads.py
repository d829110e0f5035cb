"""Reading rows fast and by several processes gives what reading them slowly and alone gives."""

import hashlib
import json
import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import crew, ingest
from datasets.cutting import cut_file
from datasets.formats import plain_chat
from datasets.formats.chat import ChatExaminer
from datasets.identity import Identity
from datasets.lines import Batch, read_lines
from datasets.rows import RowRefused, read_row
from datasets.stretches import Region, examine_region, stretch_of

CASES = json.loads((Path(__file__).resolve().parents[1] / "row_cases.json").read_text())


def row(number, **more):
    answer = json.dumps({"queue": f"q{number % 7}"})
    return json.dumps({"messages": [{"role": "user", "content": f"question {number % 90}"},
                                    {"role": "assistant", "content": answer}], **more}).encode()


def slowly(lines):
    """What the full rule makes of the same lines, one by one."""
    examiner, bad = ChatExaminer(1000), []
    for number, line in enumerate(lines, start=1):
        if examiner.row(line, number):
            bad.append(number)
    return examiner, bad


def together(lines, first=1):
    return Batch(first, b"\n".join(lines))


def fast(lines, before=()):
    """The same by the shortcut; lines that came `before` show it what rows of this file are like."""
    examiner, bad, others = ChatExaminer(1000), [], []
    for first, batch in ((1, before), (len(before) + 1, lines)):
        others = examiner.take(together(batch, first)) if batch else []
        bad += [first + place for place in others if examiner.row(batch[place], first + place)]
    return examiner, bad, others


def assert_alike(lines, before=()):
    slow, slowly_bad = slowly([*before, *lines])
    quick, bad, _ = fast(lines, before)
    assert bad == slowly_bad
    if len(bad) < len(before) + len(lines):
        assert quick.facts() == slow.facts()


# The shortcut --------------------------------------------------------------------------------------------------------


def test_plain_rows_take_the_shortcut_and_count_alike():
    lines = [row(number) for number in range(200)]
    assert fast(lines)[2] == []
    assert_alike(lines)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_shortcut_takes_no_row_that_the_rule_refuses(case):
    lines = [case["line"].encode(errors="surrogatepass"), row(1)]
    others = ChatExaminer(0).take(together(lines))
    assert others in ([], [0])
    if not others:
        assert read_row(lines[0])
    assert_alike(lines)


@pytest.mark.parametrize("line", [
    b'{"messages": [{"role": "user", "role": "user", "content": "\\u003a"}, {"role": "assistant", "content": "a"}]}',
    b'{"messages": [{"role": "user", "content": "a:", "content": "b"}, {"role": "assistant", "content": "a"}]}',
    b'{"messages": [], "messages": [{"role": "user", "content": "\\u003A"}, {"role": "assistant", "content": "a"}]}',
    b'{"messages": [{"role": "user", "ro\\u006ce": "user", "content": "a"}, {"role": "assistant", "content": "a"}]}',
    b'{"messages": [{"role": "user", "content": "a\\u0000"}, {"role": "assistant", "content": "a"}]}',
    b'{"messages": [{"role": "user", "content": "\\ud800"}, {"role": "assistant", "content": "a"}]}',
    b'{"messages": [{"role": "user", "content": "\xff"}, {"role": "assistant", "content": "a"}]}',
    b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": NaN}]}',
    b'{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]}',
    b'{"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}, '
    b'{"role": "assistant", "content": "a"}]}',
    b'{"messages": []}', b"[" * 100_000, b'{"messages": [{"role": "assistant", "content": "a"}]}]',
    b'{"messages": [{"role": "assistant", "content": "a"}], ' + b", ".join(b'"k%d": 1' % key for key in range(5000)),
])
def test_odd_lines_never_take_the_shortcut(line):
    with pytest.raises(RowRefused):
        read_row(line)
    assert fast([row(1), line, row(2)])[1:] == ([2], [1])


def test_a_row_that_goes_on_in_the_next_line_is_taken_by_neither_way():
    for cut in range(1, len(row(2))):
        lines = [row(0), row(1) + row(2)[:cut], row(2)[cut:], row(3)]
        assert fast(lines)[1] == [2, 3] == slowly(lines)[1]


def test_texts_that_read_like_keys_take_the_shortcut_and_hide_no_key():
    def said(*texts):
        return json.dumps({"messages": [{"role": "user", "content": text} for text in texts]
                           + [{"role": "assistant", "content": "a"}]}).encode()

    lines = [said("role", 'the "role'), said('say "content', '"role" of', "<b>é</b>"), said("messages")]
    assert fast(lines)[2] == []
    assert_alike(lines)
    twice = said("role").replace(b'"role": "assistant"', b'"role": "user", "role": "assistant"')
    assert fast([*lines, twice])[1] == [4]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from([":", "::", "\0", '"', "\\"])
messages = st.lists(st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": texts},
    optional={"weight": st.just(1), "tool_call_id": texts}), max_size=4)


@st.composite
def line(draw):
    """A row, written with or without escapes, and perhaps with one piece of it written twice or a byte changed."""
    text = json.dumps({"messages": draw(messages)} | ({"id": 1} if draw(st.booleans()) else {}),
                      ensure_ascii=draw(st.booleans()))
    if draw(st.integers(0, 3)) == 0:
        begin, end = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        text = text[:end] + text[begin:]
    if draw(st.integers(0, 3)) == 0:
        text = text.replace(":", "\\u003a", draw(st.integers(1, 3)))
    data = bytearray(text.encode())
    if data and draw(st.integers(0, 3)) == 0:
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data).replace(b"\n", b" ")


@settings(max_examples=150, deadline=None)
@given(st.lists(line(), min_size=1, max_size=4))
def test_the_shortcut_and_the_rule_agree_on_any_lines(lines):
    assert_alike(lines)


WRITERS = [{}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"separators": (", ", ":")}]


@pytest.mark.parametrize("writer", WRITERS, ids=str)
def test_rows_that_are_what_they_are_written_as_need_no_look_at_their_keys(writer, monkeypatch):
    said = "\x7f\u2028é" if writer == {"ensure_ascii": False} else "\x1f \n \\ / \"role\""
    lines = [json.dumps({"messages": [{"role": role, "content": f"{said} {number % 7}"}
                                      for role in ("system", "user", "user", "assistant")]}, **writer).encode()
             for number in range(9)]
    assert_alike(lines[4:], before=lines[:4])
    counted = []
    monkeypatch.setattr(plain_chat, "_writes_keys_once", lambda written, messages: counted.append(written) or True)
    assert fast(lines[4:], before=lines[:4])[2] == [] and len(counted) == 1 + (writer == WRITERS[-1])


@pytest.mark.parametrize("roles", [["assistant"], ["system", "assistant"], ["user", "assistant", "assistant"]], ids=str)
def test_rows_of_any_roles_are_compared_once_each(roles):
    lines = [json.dumps({"messages": [{"role": role, "content": f"{role} {number % 3}"} for role in roles]}).encode()
             for number in range(9)]
    assert_alike(lines[4:], before=lines[:4])


PIECES = [b"", b" ", b"\n", b"\x01", b"\x01\n", b"\\u0000", b"\\u0061", b'"role":"user",', b'"content": "", ',
          b',"messages":[]']


@st.composite
def usual_lines(draw):
    """Rows of the same roles, written the same way, and perhaps with a piece put between or over some bytes."""
    writer = draw(st.sampled_from(WRITERS))
    rows = draw(st.lists(st.tuples(texts, texts.filter(bool)), min_size=1, max_size=4))
    data = b"\n".join(json.dumps({"messages": [{"role": "user", "content": asked},
                                               {"role": "assistant", "content": answer}]}, **writer).encode()
                      for asked, answer in rows)
    for _ in range(draw(st.integers(0, 2))):
        places = st.sampled_from([0, len(data), *(at + 1 for at, sign in enumerate(data) if sign in b'{[,:"\n')])
        begin, end = sorted((draw(places), draw(places)))
        piece = draw(st.sampled_from([data[begin:end], *PIECES]))
        data = data[:draw(st.sampled_from([begin, end]))] + piece + data[end:]
    return data.split(b"\n")


@settings(max_examples=80, deadline=None)
@given(usual_lines())
def test_what_is_written_nearly_as_usual_is_judged_by_the_rule(lines):
    assert_alike(lines, before=[row(1), row(2)])
    close = [line.replace(b", ", b",").replace(b": ", b":") for line in (row(1), row(2))]
    assert_alike(lines, before=close)


# Stretches and helpers -----------------------------------------------------------------------------------------------


BODY = b"\xef\xbb\xbf" + b"\n".join([
    row(1), b"", row(2, tools=[{"type": "function", "function": {"name": "f"}}]), b"  \r", row(1), row(3) + b"\r",
    *(row(number) for number in range(40))]) + b"\n\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(BODY)
    return path


def same(found, whole):
    return (found.content_hash, found.identity.bytes_hash(), found.facts(), found.stretch.num_lines) == (
        whole.content_hash, whole.identity.bytes_hash(), whole.facts(), whole.stretch.num_lines)


@pytest.mark.parametrize("size", [1, 100, 1000])
def test_a_file_is_the_same_in_stretches_of_any_size(file, monkeypatch, size):
    whole = ingest.examine_file(file)
    rows = [line.data for line in read_lines([BODY]) if not line.is_blank]
    assert whole.content_hash == hashlib.sha256(b"\n".join(rows)).hexdigest()
    assert whole.identity.bytes_hash() == hashlib.sha256(BODY).hexdigest()
    monkeypatch.setattr(ingest, "STRETCH_BYTES", size)
    monkeypatch.setattr(ingest, "CHUNK", 150)
    monkeypatch.setattr(crew, "helpers_wanted", lambda: 0)
    assert same(ingest.examine_file(file), whole)


def test_helpers_give_what_one_process_gives_even_where_they_are_killed(file, monkeypatch):
    whole = ingest.examine_file(file)
    monkeypatch.setattr(ingest, "STRETCH_BYTES", 300)
    monkeypatch.setattr(ingest, "CHUNK", 150)
    monkeypatch.setattr(crew, "helpers_wanted", lambda: 1)
    asked, examine = [], crew.Helper.examine

    def killed(self, region):
        asked.append(region)
        if len(asked) == 2:
            os.kill(self._process.pid, signal.SIGKILL)
        return examine(self, region)

    monkeypatch.setattr(crew.Helper, "examine", killed)
    monkeypatch.setattr(crew.Helper, "has_room", True)
    assert same(ingest.examine_file(file), whole)
    assert len(asked) > 2


def test_helpers_stay_for_the_next_file_and_end_when_none_comes(file, monkeypatch):
    monkeypatch.setattr(ingest, "STRETCH_BYTES", 300)
    monkeypatch.setattr(ingest, "CHUNK", 150)
    monkeypatch.setattr(crew, "helpers_wanted", lambda: 1)
    monkeypatch.setattr(crew, "resting", crew.Resting())
    made, started = [], crew.Helper.__init__
    monkeypatch.setattr(crew.Helper, "__init__", lambda self: made.append(self) or started(self))
    assert same(ingest.examine_file(file), ingest.examine_file(file))
    helper, = made
    assert helper.is_idle
    with crew.crew() as helpers:
        assert helpers._free() is helper
        monkeypatch.setattr(crew.Helper, "is_idle", False)  # one that is still at work for a file that was refused
    assert helper._process.poll() is not None
    monkeypatch.undo()
    crew.resting.lay([kept := crew.Helper()])
    crew.resting.end()
    assert kept._process.poll() is not None


def test_a_bad_line_in_a_late_stretch_is_named(file, monkeypatch):
    file.write_bytes(BODY + b"{}\n" + row(1))
    monkeypatch.setattr(ingest, "STRETCH_BYTES", 300)
    monkeypatch.setattr(crew, "helpers_wanted", lambda: 0)
    with pytest.raises(ingest.DatasetInvalid) as info:
        ingest.examine_file(file)
    assert [problem.path for problem in info.value.problems] == [f"line {BODY.count(b'%c' % 10) + 1}: messages"]


def test_a_stretch_travels_as_json(file):
    stretch = examine_region(Region(str(file), 0, len(BODY), compared=100))
    again = stretch_of(json.loads(json.dumps(stretch.state())))
    assert again.state() == stretch.state()
    assert again.examiner.facts() == stretch.examiner.facts()


# Identity and cut ----------------------------------------------------------------------------------------------------


lines_of_a_file = st.lists(st.sampled_from([b"a", b"bb", b"", b" ", b"c\r", b"\r", b"\xef\xbb\xbfd"]), max_size=8)


@given(lines_of_a_file, st.booleans(), st.integers(1, 5))
def test_rows_and_bytes_are_hashed_alike_however_they_come(lines, ends, size):
    body = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    pieces = [body[start:start + size] for start in range(0, len(body), size)]
    found = list(read_lines([body]))
    identity = Identity()
    is_exact = all(not line.is_blank and line.data == raw for line, raw in zip(found, lines, strict=False))
    (identity.add_exact if is_exact and b"\r" not in body else identity.add)(pieces)
    rows = b"\n".join(line.data for line in found if not line.is_blank)
    assert identity.rows_hash() == hashlib.sha256(rows).hexdigest()
    assert identity.bytes_hash() == hashlib.sha256(body).hexdigest()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.booleans())
def test_a_cut_falls_between_lines_and_is_as_late_as_fits(tmp_path_factory, sizes, ends):
    body = b"\n".join(b"x" * size for size in sizes) + (b"\n" if ends else b"")
    path = tmp_path_factory.getbasetemp() / "cut.jsonl"
    path.write_bytes(body)
    cuts = cut_file(path, 31)
    parts = [body[cut.start:cut.end] for cut in cuts]
    assert b"".join(parts) == body and all(0 < len(part) <= 31 for part in parts)
    assert all(part.endswith(b"\n") for part in parts[:-1])
    for part, later in pairwise(parts):
        assert len(part) + len(later.partition(b"\n")[0]) + 1 > 31
