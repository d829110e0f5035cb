"""Chat rows: the examiner of a stretch of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from datasets.findings import Findings
from datasets.formats import FormatFacts
from datasets.rows import FORMAT, RowRefused, image_places, read_row
from datasets.statistics import Statistics
from optimize_site.kernel.errors import Problem


class ChatExaminer:
    """Checks chat rows and gathers their statistics and what is odd about them."""

    format = FORMAT

    def __init__(self, compared: int):
        self.statistics, self.findings = Statistics(), Findings(compared)

    def take(self, lines: Sequence[bytes], first: int) -> list[int]:
        """No shortcut: every line is looked at on its own."""
        return list(range(len(lines)))

    def row(self, data: bytes, line: int) -> list[Problem]:
        """Take in one row by the full rule, or say everything that is wrong with it."""
        try:
            row = read_row(data)
        except RowRefused as error:
            return error.problems
        images = [_image_not_read(path) for path in image_places(row)]
        if not images:
            self.statistics.add(row)
            self.findings.add(row, line)
        return images

    def merge(self, later: Self) -> None:
        """Add what the examiner of the next stretch gathered."""
        self.statistics.merge(later.statistics)
        self.findings.merge(later.findings)

    def move(self, lines: int) -> None:
        """Number the lines that were noted `lines` higher."""
        self.findings.move(lines)

    def state(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {"statistics": self.statistics.state(), "findings": self.findings.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the examiner whose `state` this is."""
        self.statistics.restore(state["statistics"])
        self.findings.restore(state["findings"])

    def facts(self) -> FormatFacts:
        """What the rows hold."""
        return FormatFacts(num_tool_rows=self.statistics.num_tool_rows, statistics=self.statistics.document(),
                           findings=self.findings.document(self.statistics))


def _image_not_read(path: str) -> Problem:
    return Problem(path, "images_not_read", "The part is an image; this box reads text only so far.",
                   'Right: {"type": "text", "text": "…"}.')
