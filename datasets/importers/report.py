"""What an import did: rows written, what was changed in them, what was left out, which records were refused."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from optimize_site.kernel.errors import Problem

MAX_PLACES = 3
MAX_REFUSED = 20

SENTENCES = {
    "answer_added": "The reference answer became the last message",
    "completion_turns": "A completion of several answers was kept whole: only the last is trained, unless "
                        "loss.assistantTurns is all, which trains those of the prompt too",
    "developer_role": "Messages of the developer became system messages",
    "function_call": "function_call became tool_calls",
    "function_role": "Messages of the role function became tool messages",
    "functions": "functions became tools",
    "images_placed": "Images became parts of the messages; their paths count from the folder of the rows",
    "labelled_false": "Records with the label false were left out: a row has no place for an answer that is not to be "
                      "learned",
    "null_fields": "Fields that are null in a record were left out: the source fills in fields that other records have",
    "parallel_calls": "Calls in a row became calls of one message",
    "prompt_split": "The messages both answers share became the prompt",
    "results_split": "A list of results became a message for each call",
    "roles": "Roles of another form were renamed",
    "system_column": "The system text became the first message",
    "text_prompt": "Texts became messages",
    "tools_text": "Tools written as a JSON text became a list",
    "blank_tools": "A blank text in place of tools was left out",
    "tool_ids": "Calls without an id were numbered",
    "untrained_messages": "Answers that are not to be trained lost their mark: a run trains them where its "
                          "loss.assistantTurns is all, and only the last answer where it is last, the default",
}


@dataclass
class Noted:
    """How often something happened, and the first records it happened in."""

    count: int = 0
    places: list[int] = field(default_factory=list)

    def add(self, place: int) -> None:
        self.count += 1
        if len(self.places) < MAX_PLACES:
            self.places.append(place)


@dataclass
class Report:
    """What happened to the records of a source; places are record numbers, from 1 (lines, in a file of lines)."""

    kind: str
    format: str
    records: int = 0
    written: int = 0
    refused: int = 0
    problems: list[Problem] = field(default_factory=list)
    changed: dict[str, Noted] = field(default_factory=dict)
    dropped: dict[str, Noted] = field(default_factory=dict)

    def change(self, code: str, place: int) -> None:
        """Something was written another way."""
        self.changed.setdefault(code, Noted()).add(place)

    def drop(self, name: str, place: int) -> None:
        """A field of a record has no place in the row."""
        self.dropped.setdefault(name, Noted()).add(place)

    def refuse(self, place: int, problems: Iterable[Problem]) -> None:
        """A record gives no row."""
        self.refused += 1
        if self.refused > MAX_REFUSED:
            return
        for problem in problems:
            where = f"record {place}: {problem.path}" if problem.path else f"record {place}"
            self.problems.append(Problem(where, problem.code, problem.message, problem.hint))

    def document(self) -> dict[str, Any]:
        """The report as JSON; of the refused records the first are in `refusedRecords`, each with what is wrong."""
        return {"kind": self.kind, "format": self.format, "records": self.records, "written": self.written,
                "changed": [{"code": code, "message": f"{SENTENCES[code]}.", "count": noted.count,
                             "records": noted.places} for code, noted in self.changed.items()],
                "dropped": [{"field": name, "count": noted.count, "records": noted.places}
                            for name, noted in self.dropped.items()], "refused": self.refused,
                "refusedRecords": [asdict(problem) for problem in self.problems]}
