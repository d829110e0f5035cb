"""What registration notices about good rows and says without refusing: blank lines, repeated rows, odd turns."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

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


class Findings:
    """Counts what is noticed, with the first lines it was noticed at."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.lines: dict[str, list[int]] = {}
        self._answers: dict[int, int] = {}

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
        if len(self._answers) < MAX_COMPARED_ROWS:
            self._compare(row, line)

    def _compare(self, row: Row, line: int) -> None:
        *prompt, answer = row["messages"]
        asked, answered = hash(orjson.dumps([prompt, row.get("tools")])), hash(orjson.dumps(answer))
        if asked in self._answers:
            self.note("repeated_rows" if self._answers[asked] == answered else "conflicting_answers", line)
        else:
            self._answers[asked] = answered

    def document(self, statistics: Statistics) -> list[dict[str, Any]]:
        """The findings as JSON, in a fixed order."""
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
