"""What was found in one stretch of rows: counts, the first rows of each kind, and the columns of lengths."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from optimize_child.analysis.fingerprints import NOTHING, Fingerprints
from optimize_child.analysis.labels import Labels
from optimize_child.analysis.partials import COLUMNS, Partial
from optimize_child.rendering.template_check import TemplateProblem

NAMED_ROWS = 20


class Findings:
    """Filled row by row. Rows and lines count from 0 within the stretch; whoever merges adds what came before."""

    def __init__(self) -> None:
        self.read_lines = 0
        self.lines: list[int] = []
        self.lengths: list[tuple[int, int, int, int]] = []
        self.fingerprints = [NOTHING]
        self.labels = Labels()
        self.languages: Counter[str] = Counter()
        self.tool_rows = self.bad_rows = self.problem_rows = 0
        self.joined_rows = self.separate_rows = 0
        self.bad: list[tuple[int, str]] = []
        self.problems: list[dict[str, Any]] = []
        self.joined: list[dict[str, Any]] = []

    @property
    def rows(self) -> int:
        return len(self.lines)

    def add(self, line: int) -> None:
        """A good row stands on this line; what follows is about it until the next."""
        self.lines.append(line)

    def refuse(self, line: int, reason: str) -> None:
        """The line is no good row, so the dataset cannot be measured."""
        self.bad_rows += 1
        if len(self.bad) < NAMED_ROWS:
            self.bad.append((line, reason))

    def problem(self, problem: TemplateProblem) -> None:
        """The template does not render the present row."""
        self.problem_rows += 1
        if len(self.problems) < NAMED_ROWS:
            told = {"kind": problem.kind, "reason": problem.reason, "where": problem.where}
            self.problems.append({"row": self.rows - 1, "told": told})

    def consecutive_answers(self, *, joined: bool) -> None:
        """The present row has assistant messages that follow each other, which the template renders as one turn or as
        separate ones."""
        self.joined_rows += joined
        self.separate_rows += not joined
        if joined and len(self.joined) < NAMED_ROWS:
            self.joined.append({"row": self.rows - 1, "told": {}})

    def partial(self) -> Partial:
        """All of it, as it is kept."""
        return Partial(
            np.array(self.lengths, dtype=np.int32).reshape(-1, len(COLUMNS)),
            np.array(self.lines, dtype=np.int32),
            Fingerprints(*map(np.concatenate, zip(*self.fingerprints, strict=True))),
            {
                "lines": self.read_lines,
                "rows": self.rows,
                "bad": self.bad,
                "badRows": self.bad_rows,
                "problems": self.problems,
                "problemRows": self.problem_rows,
                "joined": self.joined,
                "joinedRows": self.joined_rows,
                "separateRows": self.separate_rows,
                "toolRows": self.tool_rows,
                "labels": self.labels.document(),
                "languages": dict(self.languages),
            },
        )
