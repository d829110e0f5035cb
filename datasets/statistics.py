"""Light statistics over chat rows, in bounded memory: turns, lengths, and the balance of what the answers say."""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from datasets.rows import Row, answer_text, offers_tools, text_of

MAX_FIELDS = 20
MAX_COLUMNS, MAX_COLUMN_CHARACTERS = 100, 300
OWN_KEYS = frozenset({"messages", "tools"})
MAX_VALUES = 500
MAX_TURNS = 64
TOP_VALUES = 20
MOST_HELD_ANSWERS = 64
LABEL_CHARACTERS = 60
EXACT_BELOW = 1000


class Lengths:
    """Lengths in characters; from EXACT_BELOW on kept to two digits, so that their number stays bounded."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.total = 0

    def add(self, length: int, rows: int = 1) -> None:
        self.counts[kept(length)] += rows
        self.total += length * rows

    def add_all(self, lengths: Iterable[int]) -> None:
        found = list(lengths)
        self.total += sum(found)
        self.counts.update(map(kept, found))

    def merge(self, other: "Lengths") -> None:
        self.counts.update(other.counts)
        self.total += other.total

    def state(self) -> dict[str, Any]:
        return {"counts": list(self.counts.items()), "total": self.total}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.counts, self.total = Counter(dict(state["counts"])), state["total"]

    def document(self) -> dict[str, Any]:
        number = self.counts.total()
        if not number:
            return {}
        return {"min": min(self.counts), "median": self._at(0.5), "p90": self._at(0.9), "max": max(self.counts),
                "mean": round(self.total / number, 1)}

    def _at(self, share: float) -> int:
        passed, wanted = 0, share * self.counts.total()
        for length in sorted(self.counts):
            passed += self.counts[length]
            if passed >= wanted:
                return length
        return 0


@lru_cache(maxsize=1 << 14)
def kept(length: int) -> int:
    """A length as it is counted: a long one to two significant digits."""
    if length < EXACT_BELOW:
        return length
    step = 10 ** (len(str(length)) - 2)
    return int(length // step * step)


class Values:
    """How often each value of one field was seen; only the first MAX_VALUES different ones are told apart."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.rows = 0
        self.is_cut = False

    def add(self, value: str, rows: int = 1) -> None:
        self.rows += rows
        if value in self.counts or len(self.counts) < MAX_VALUES:
            self.counts[value] += rows
        else:
            self.is_cut = True

    def merge(self, other: "Values") -> None:
        rows = self.rows + other.rows
        for value, number in other.counts.items():
            self.add(value, number)
        self.rows, self.is_cut = rows, self.is_cut or other.is_cut

    def state(self) -> dict[str, Any]:
        return {"counts": list(self.counts.items()), "rows": self.rows, "isCut": self.is_cut}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.counts, self.rows, self.is_cut = Counter(dict(state["counts"])), state["rows"], state["isCut"]

    def document(self) -> dict[str, Any]:
        ordered = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        top = [{"value": value, "rows": rows} for value, rows in ordered[:TOP_VALUES]]
        return {"rows": self.rows, "distinct": len(self.counts), "isCut": self.is_cut, "top": top}


NUMBERS = ("num_rows", "num_system_rows", "num_tool_rows", "num_call_rows")


class Statistics:
    """What the rows look like; `add` each, then read `document`."""

    num_rows: int
    num_system_rows: int
    num_tool_rows: int
    num_call_rows: int

    def __init__(self) -> None:
        self.turns: Counter[int] = Counter()
        self.answer_lengths, self.row_lengths = Lengths(), Lengths()
        self.answers: Counter[str] = Counter()
        self._held_answers: Counter[str] = Counter()
        self.fields: dict[str, Values] = {}
        self.labels = Values()
        self.columns: Counter[str] | None = Counter()
        """Rows that hold something under each key of their own; None where there are too many keys, or nobody counted.
        """
        self.num_rows = self.num_system_rows = self.num_tool_rows = self.num_call_rows = 0

    def merge(self, later: "Statistics") -> None:
        """Add the rows of the next stretch."""
        self._settle()
        later._settle()
        self.turns.update(later.turns)
        self.answers.update(later.answers)
        for ours, theirs in ((self.answer_lengths, later.answer_lengths), (self.row_lengths, later.row_lengths)):
            ours.merge(theirs)
        for name, values in later.fields.items():
            if name in self.fields or len(self.fields) < MAX_FIELDS:
                self.fields.setdefault(name, Values()).merge(values)
        self.labels.merge(later.labels)
        if self.columns is not None:
            self.columns = None if later.columns is None else _few(self.columns + later.columns)
        for number in NUMBERS:
            setattr(self, number, getattr(self, number) + getattr(later, number))

    def state(self) -> dict[str, Any]:
        """All of it as JSON, for `restore`."""
        self._settle()
        return {"turns": list(self.turns.items()), "answers": dict(self.answers),
                "answerLengths": self.answer_lengths.state(), "rowLengths": self.row_lengths.state(),
                "fields": {name: values.state() for name, values in self.fields.items()},
                "labels": self.labels.state(), "columns": self.columns,
                "numbers": {name: getattr(self, name) for name in NUMBERS}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the statistics whose `state` this is."""
        self.turns, self.answers = Counter(dict(state["turns"])), Counter(state["answers"])
        self.answer_lengths.restore(state["answerLengths"])
        self.row_lengths.restore(state["rowLengths"])
        self.labels.restore(state["labels"])
        columns = state.get("columns")  # a file that was examined by an earlier version has none
        self.columns = None if columns is None else Counter(columns)
        self.fields = {}
        for name, values in state["fields"].items():
            self.fields[name] = Values()
            self.fields[name].restore(values)
        for name, number in state["numbers"].items():
            setattr(self, name, number)

    def add(self, row: Row) -> None:
        messages = row["messages"]
        self.num_rows += 1
        self.turns[min(sum(message["role"] == "user" for message in messages), MAX_TURNS)] += 1
        self.num_system_rows += messages[0]["role"] == "system"
        self.num_tool_rows += offers_tools(row)
        self.num_call_rows += any(message.get("tool_calls") for message in messages)
        self.row_lengths.add(sum(len(text_of(message.get("content"))) for message in messages))
        self._add_columns(row)
        if messages[-1].get("tool_calls"):
            self.answer_lengths.add(len(answer_text(row)))
            self.answers["calls"] += 1
        else:
            self.add_answer(answer_text(row))

    def _add_columns(self, row: Row) -> None:
        held = [key for key, value in row.items()
                if key not in OWN_KEYS and value is not None and len(key) <= MAX_COLUMN_CHARACTERS]
        if held and self.columns is not None:
            self.columns.update(held)
            self.columns = _few(self.columns)

    def add_answers(self, answers: Iterable[str]) -> None:
        """Count answers of text: few different ones are held until they are asked for, so that each is read once."""
        self._held_answers.update(answers)
        if len(self._held_answers) > MOST_HELD_ANSWERS:
            self._settle()

    def _settle(self) -> None:
        for answer, rows in self._held_answers.items():
            self.add_answer(answer, rows)
        self._held_answers.clear()

    def add_answer(self, answer: str, rows: int = 1) -> None:
        """Count an answer of text that so many rows give."""
        self.answer_lengths.add(len(answer), rows)
        fields = json_object(answer)
        if fields is not None:
            self.answers["json"] += rows
            self._add_fields(fields, rows)
            return
        self.answers["text"] += rows
        if len(answer) <= LABEL_CHARACTERS:
            self.labels.add(answer, rows)

    def _add_fields(self, fields: dict[str, Any], rows: int) -> None:
        for name, value in fields.items():
            if name not in self.fields and len(self.fields) >= MAX_FIELDS:
                continue
            if name not in self.fields:
                self.fields[name] = Values()
            shown = value if isinstance(value, str) else orjson.dumps(value).decode()
            self.fields[name].add(shown[:LABEL_CHARACTERS], rows)

    def document(self) -> dict[str, Any]:
        """The statistics as JSON; `labels` is there where whole answers are short texts that repeat."""
        self._settle()
        repeated = self.labels.rows >= 2 * len(self.labels.counts) and self.labels.rows * 2 >= self.num_rows
        return {"turns": {str(turns): rows for turns, rows in sorted(self.turns.items())},
                "answers": dict(self.answers), "answerCharacters": self.answer_lengths.document(),
                "rowCharacters": self.row_lengths.document(), "systemRows": self.num_system_rows,
                "toolRows": self.num_tool_rows, "callRows": self.num_call_rows,
                "columns": None if self.columns is None else dict(sorted(self.columns.items())),
                "fields": {name: values.document() for name, values in self.fields.items()},
                "labels": self.labels.document() if self.labels.rows and repeated else None}


def _few(columns: Counter[str]) -> Counter[str] | None:
    """The counts, as long as there are few enough to keep."""
    return columns if len(columns) <= MAX_COLUMNS else None


def json_object(answer: str) -> dict[str, Any] | None:
    """The object an answer is, or None where it is a text or another value."""
    if not answer.lstrip().startswith("{"):
        return None
    try:
        value = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
