"""What registration notices about good rows and says without refusing: blank lines, repeated rows, odd turns."""

import sys
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        self.counts: Counter[str] = Counter()
        self.lines: dict[str, list[int]] = {}
        self.compared = compared
        self.repeats = Repeats()

    @property
    def num_to_compare(self) -> int:
        """How many more rows are compared."""
        return self.compared - self.repeats.num_rows

    def note(self, codes: Iterable[str], line: int) -> None:
        """Count one more of each code, at this line."""
        for code in codes:
            self.counts[code] += 1
            _keep_first(self.lines.setdefault(code, []), [line])

    def add(self, row: Row, line: int) -> None:
        """Look at one good row."""
        self.look(row["messages"], line)
        if self.num_to_compare > 0:
            self.compare(_prompt(row), _answer(row), line)

    def look(self, messages: list[dict[str, Any]], line: int) -> None:
        """Look at the turns of a good row."""
        self.note(odd_turns([message["role"] for message in messages]), line)
        if any(message.get("weight") is not None for message in messages):
            self.note(["weight_not_read"], line)

    def compare(self, asked: bytes, answered: bytes, line: int) -> None:
        """Tell a row apart from the others by what it asks and what it answers, while there are rows to compare."""
        if self.num_to_compare > 0:
            self.repeats.add(asked, answered, line)

    def compare_all(self, asked: Iterable[bytes], answered: Iterable[bytes], lines: Sequence[int]) -> None:
        """The same for several rows, no more than there are to compare."""
        self.repeats.add_all(asked, answered, lines)

    def merge(self, later: "Findings") -> None:
        """Add what was noticed in the next stretch."""
        self.counts.update(later.counts)
        for code, lines in later.lines.items():
            _keep_first(self.lines.setdefault(code, []), lines)
        self.repeats.merge(later.repeats)

    def move(self, lines: int) -> None:
        """Number every line `lines` higher."""
        self.lines = {code: [line + lines for line in noted] for code, noted in self.lines.items()}
        self.repeats.move(lines)

    def state(self) -> dict[str, Any]:
        """All of it as JSON, for `restore`."""
        return {"counts": dict(self.counts), "lines": self.lines, "repeats": self.repeats.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the findings whose `state` this is."""
        self.counts, self.lines = Counter(state["counts"]), dict(state["lines"])
        self.repeats.restore(state["repeats"])

    def document(self, statistics: Statistics) -> list[dict[str, Any]]:
        """The findings as JSON, in a fixed order."""
        whole = Findings(compared=0)
        whole.merge(self)
        for code, line in self.repeats.found():
            whole.note([code], line)
        counts = whole.counts | _of_all_rows(statistics)
        return [{"code": code, "message": f"{sentence}.", "count": counts[code], "lines": whole.lines.get(code, [])}
                for code, sentence in SENTENCES.items() if code in counts]


def _keep_first(lines: list[int], more: Iterable[int]) -> None:
    """Put more line numbers among the first MAX_LINES."""
    lines[:] = sorted([*lines, *more])[:MAX_LINES]


def _of_all_rows(statistics: Statistics) -> Counter[str]:
    """What shows in all the rows together."""
    rows, found = statistics.num_rows, Counter[str]()
    if 0 < statistics.num_system_rows < rows:
        found["system_in_some_rows"] = rows - statistics.num_system_rows
    fields = list(statistics.fields.values()) or [statistics.labels]
    if rows > 1 and all(values.rows == rows and len(values.counts) == 1 for values in fields):
        found["one_answer"] = rows
    return found


def plain_prompt(roles: Sequence[str], texts: Sequence[str] = ()) -> str:
    """The fingerprint's text of a prompt whose messages are of text alone: the roles, the answer's too, then `texts`.
    """
    return "\0".join([*roles, *texts])


def _prompt(row: Row) -> bytes:
    *prompt, _ = messages = row["messages"]
    if row.get("tools") or not all(map(_is_plain, prompt)):
        return orjson.dumps([prompt, row.get("tools")], option=orjson.OPT_SORT_KEYS)
    return plain_prompt([message["role"] for message in messages], [message["content"] for message in prompt]).encode()


def _answer(row: Row) -> bytes:
    answer = row["messages"][-1]
    return str(answer["content"]).encode() if _is_plain(answer) else orjson.dumps(answer, option=orjson.OPT_SORT_KEYS)


def _is_plain(message: Row) -> bool:
    return message.keys() == {"role", "content"} and isinstance(message["content"], str)


class Repeats:
    """Fingerprints of the first rows, told apart by what they ask and what they answer."""

    def __init__(self) -> None:
        self.asked, self.answered, self.lines = array("Q"), array("I"), array("Q")

    @property
    def num_rows(self) -> int:
        return len(self.asked)

    def add(self, asked: bytes, answered: bytes, line: int) -> None:
        """Keep one row's fingerprints."""
        self.add_all([asked], [answered], [line])

    def add_all(self, asked: Iterable[bytes], answered: Iterable[bytes], lines: Sequence[int]) -> None:
        """Keep the fingerprints of several rows."""
        digests = array("Q", b"".join([blake2b(text, digest_size=8).digest() for text in asked]))
        if sys.byteorder == "little":
            digests.byteswap()  # the same numbers on every machine
        self.asked.extend(digests)
        self.answered.extend(map(crc32, answered))
        self.lines.extend(lines)

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
        for line, asked, answered in sorted(zip(self.lines, self.asked, self.answered, strict=True)):
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


def odd_turns(roles: Sequence[str]) -> Iterator[str]:
    """What is odd about the order of a row's roles."""
    pairs = set(pairwise(roles))
    if ("assistant", "assistant") in pairs:
        yield "consecutive_assistant_messages"
    if ("user", "user") in pairs:
        yield "consecutive_user_messages"
    if "user" not in roles:
        yield "no_user_message"
