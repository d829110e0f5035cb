"""Chat rows: the examiner of a stretch of them."""

import re
from collections.abc import Mapping
from typing import Any, Self

from datasets.findings import Findings
from datasets.formats import FormatFacts
from datasets.formats.plain_chat import PlainChat
from datasets.lines import Batch
from datasets.rows import FORMAT, Row, RowRefused, images_of, problem, read_row
from datasets.statistics import Statistics
from optimize_site.kernel.errors import Problem

MAX_IMAGES = 1_000_000
FILE_OF_ROWS = re.compile(r"examples(-\d+)?\.jsonl")
"""What a version calls its own files; an image of that path would stand in its listing beside one."""


class ChatExaminer:
    """Checks chat rows and gathers their statistics and what is odd about them."""

    format = FORMAT

    def __init__(self, compared: int):
        self.statistics, self.findings = Statistics(), Findings(compared)
        self.image_lines: dict[str, int] = {}
        self._plain = PlainChat(self.statistics, self.findings)

    def take(self, batch: Batch) -> list[int]:
        """Take in the plain rows among the lines; gives the places of the others."""
        return self._plain.take(batch)

    def row(self, data: bytes, line: int) -> list[Problem]:
        """Take in one row by the full rule, or say everything that is wrong with it."""
        try:
            row = read_row(data)
        except RowRefused as error:
            return error.problems
        self.statistics.add(row)
        self.findings.add(row, line)
        return self._name_images(row, line)

    def _name_images(self, row: Row, line: int) -> list[Problem]:
        for place, path in images_of(row):
            if FILE_OF_ROWS.fullmatch(path):
                return [problem(f"{place}.path", "image_path_invalid", f'The path "{path}" is that of a file of rows.')]
            self.image_lines[path] = min(line, self.image_lines.get(path, line))
            if len(self.image_lines) > MAX_IMAGES:
                return [Problem(place, "too_many_images", f"The rows name more than {MAX_IMAGES:,} images.",
                                "Register them as several datasets.")]
        return []

    def merge(self, later: Self) -> None:
        """Add what the examiner of the next stretch gathered."""
        self.image_lines = later.image_lines | self.image_lines
        self.statistics.merge(later.statistics)
        self.findings.merge(later.findings)

    def move(self, lines: int) -> None:
        """Number the lines that were noted `lines` higher."""
        self.findings.move(lines)
        self.image_lines = {path: line + lines for path, line in self.image_lines.items()}

    def state(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {"statistics": self.statistics.state(), "findings": self.findings.state(), "images": self.image_lines}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the examiner whose `state` this is."""
        self.statistics.restore(state["statistics"])
        self.findings.restore(state["findings"])
        self.image_lines = dict(state["images"])

    def facts(self) -> FormatFacts:
        """What the rows hold."""
        return FormatFacts(num_tool_rows=self.statistics.num_tool_rows, statistics=self.statistics.document(),
                           findings=self.findings.document(self.statistics), image_lines=self.image_lines)
