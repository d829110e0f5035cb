"""What registration notices about good rows and says without refusing: blank lines, repeated rows, odd turns."""

from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any
from zlib import compress, crc32, decompress

import orjson

from datasets.rows import Row
from datasets.statistics import Statistics

# Repeats are looked for among the first rows only, so that memory stays bounded.
MAX_COMPARED_ROWS = 50_000
MAX_LINES = 3

SENTENCES = {
    "blank_lines": "Blank lines were skipped",
    "byte_order_mark": "The file opens with a byte order mark, which was skipped",
    "carriage_returns": "Lines end with CR LF; the CR was left out",
    "repeated_rows": "Rows repeat an earlier row exactly",
    "conflicting_answers": "Rows ask what an earlier row asked, and answer otherwise",
    "consecutive_assistant_messages": "Rows have two assistant messages in a row; some templates join or refuse them",
    "consecutive_user_messages": "Rows have two user messages in a row; some templates refuse them",
    "no_user_message": "Rows have no user message; some templates refuse them",
    "weight_not_read": "Messages carry a weight, which is not read; a run's loss settings say what is trained",
    "one_answer": "Every row has the same answer",
    "system_in_some_rows": "Some rows have a system message and some have none",
}


def file_findings(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """What was noticed about a file rather than its rows, by code, as JSON."""
    return [{"code": code, "message": f"{SENTENCES[code]}.", "count": count, "lines": []}
            for code, count in counts.items() if count]


class Findings:
    """Counts what is noticed, with the first lines it was noticed at; the first `compared` rows are told apart."""

    def __init__(self, compared: int = MAX_COMPARED_ROWS) -> None:
        self.counts: dict[str, int] = {}
        self.lines: dict[str, list[int]] = {}
        self.compared = compared
        self.repeats = Repeats()

    def note(self, code: str, line: int) -> None:
        """Count one more of `code`, at this line."""
        self.counts[code] = self.counts.get(code, 0) + 1
        lines = self.lines.setdefault(code, [])
        if len(lines) < MAX_LINES:
            lines.append(line)

    def add(self, row: Row, line: int) -> None:
        """Look at one good row."""
        for code in _odd_turns(row["messages"]):
            self.note(code, line)
        if self.repeats.num_rows < self.compared:
            *prompt, answer = row["messages"]
            self.repeats.add(orjson.dumps([prompt, row.get("tools")]), orjson.dumps(answer), line)

    def merge(self, later: "Findings") -> None:
        """Add what was noticed in the next stretch."""
        for code, count in later.counts.items():
            self.counts[code] = self.counts.get(code, 0) + count
            self.lines[code] = (self.lines.get(code, []) + later.lines.get(code, []))[:MAX_LINES]
        self.repeats.merge(later.repeats)

    def move(self, lines: int) -> None:
        """Number every line `lines` higher."""
        self.lines = {code: [line + lines for line in noted] for code, noted in self.lines.items()}
        self.repeats.move(lines)

    def state(self) -> dict[str, Any]:
        """All of it as JSON, for `restore`."""
        return {"counts": self.counts, "lines": self.lines, "repeats": self.repeats.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the findings whose `state` this is."""
        self.counts, self.lines = dict(state["counts"]), dict(state["lines"])
        self.repeats.restore(state["repeats"])

    def document(self, statistics: Statistics) -> list[dict[str, Any]]:
        """The findings as JSON, in a fixed order."""
        for code, line in self.repeats.found():
            self.note(code, line)
        self._conclude(statistics)
        return [{"code": code, "message": f"{sentence}.", "count": self.counts[code],
                 "lines": self.lines.get(code, [])} for code, sentence in SENTENCES.items() if code in self.counts]

    def _conclude(self, statistics: Statistics) -> None:
        rows = statistics.num_rows
        if 0 < statistics.num_system_rows < rows:
            self.counts["system_in_some_rows"] = rows - statistics.num_system_rows
        fields = list(statistics.fields.values()) or [statistics.labels]
        if rows > 1 and all(values.rows == rows and len(values.counts) == 1 for values in fields):
            self.counts["one_answer"] = rows


class Repeats:
    """Fingerprints of the first rows, told apart by what they ask and what they answer."""

    def __init__(self) -> None:
        self.asked, self.answered, self.lines = array("Q"), array("I"), array("Q")

    @property
    def num_rows(self) -> int:
        return len(self.asked)

    def add(self, asked: bytes, answered: bytes, line: int) -> None:
        """Keep one row's fingerprints."""
        self.asked.append(int.from_bytes(blake2b(asked, digest_size=8).digest()))
        self.answered.append(crc32(answered))
        self.lines.append(line)

    def merge(self, later: "Repeats") -> None:
        """Add the next rows, as far as they are among the first MAX_COMPARED_ROWS."""
        room = max(0, MAX_COMPARED_ROWS - self.num_rows)
        for ours, theirs in zip(self._columns(), later._columns(), strict=True):
            ours.extend(theirs[:room])

    def move(self, lines: int) -> None:
        """Number every line `lines` higher."""
        self.lines = array("Q", (line + lines for line in self.lines))

    def found(self) -> Iterator[tuple[str, int]]:
        """Each row that asks what an earlier one asked: whether it answers alike, and its line."""
        answers: dict[int, int] = {}
        for asked, answered, line in zip(*self._columns(), strict=True):
            if asked not in answers:
                answers[asked] = answered
            else:
                yield "repeated_rows" if answers[asked] == answered else "conflicting_answers", line

    def state(self) -> list[str]:
        return [b64encode(compress(column.tobytes(), 1)).decode() for column in self._columns()]

    def restore(self, state: Sequence[str]) -> None:
        for column, text in zip(self._columns(), state, strict=True):
            column.frombytes(decompress(b64decode(text)))

    def _columns(self) -> tuple["array[int]", "array[int]", "array[int]"]:
        return self.asked, self.answered, self.lines


def _odd_turns(messages: list[dict[str, Any]]) -> Iterator[str]:
    roles = [message["role"] for message in messages]
    pairs = set(pairwise(roles))
    if ("assistant", "assistant") in pairs:
        yield "consecutive_assistant_messages"
    if ("user", "user") in pairs:
        yield "consecutive_user_messages"
    if "user" not in roles:
        yield "no_user_message"
    if any(message.get("weight") is not None for message in messages):
        yield "weight_not_read"
