"""Preference pairs: the examiner of a stretch of them."""

from collections.abc import Mapping
from typing import Any, Self

import orjson

from datasets.findings import Findings
from datasets.formats import FormatFacts
from datasets.lines import Batch
from datasets.pairs import FORMAT, as_rows, read_pair
from datasets.rows import Row, RowRefused, answer_text
from datasets.statistics import Lengths, Statistics
from optimize_site.kernel.errors import Problem


class PairExaminer:
    """Checks preference pairs and gathers their statistics, those of the chosen answers, and what is odd about them."""

    format = FORMAT

    def __init__(self, compared: int):
        self.statistics, self.findings, self.rejected = Statistics(), Findings(compared), Lengths()

    def take(self, batch: Batch) -> list[int]:
        """No shortcut: every line is looked at on its own."""
        return list(range(batch.num_lines))

    def row(self, data: bytes, line: int) -> list[Problem]:
        """Take in one pair by the full rule, or say everything that is wrong with it."""
        try:
            pair = read_pair(data)
        except RowRefused as error:
            return error.problems
        chosen, rejected = as_rows(pair)
        self.statistics.add(chosen)
        self.rejected.add(len(answer_text(rejected)))
        self.findings.look(chosen["messages"], line)
        self.findings.compare(*_compared(pair), line)
        return []

    def merge(self, later: Self) -> None:
        """Add what the examiner of the next stretch gathered."""
        self.statistics.merge(later.statistics)
        self.rejected.merge(later.rejected)
        self.findings.merge(later.findings)

    def move(self, lines: int) -> None:
        """Number the lines that were noted `lines` higher."""
        self.findings.move(lines)

    def state(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {"statistics": self.statistics.state(), "rejected": self.rejected.state(),
                "findings": self.findings.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Become the examiner whose `state` this is."""
        self.statistics.restore(state["statistics"])
        self.rejected.restore(state["rejected"])
        self.findings.restore(state["findings"])

    def facts(self) -> FormatFacts:
        """What the pairs hold."""
        document = self.statistics.document() | {"rejectedCharacters": self.rejected.document()}
        return FormatFacts(num_tool_rows=self.statistics.num_tool_rows, statistics=document,
                           findings=self.findings.document(self.statistics))


def _compared(pair: Row) -> tuple[bytes, bytes]:
    """What a pair asks, its two answers whichever is better; and which is. One prompt may well have several pairs."""
    chosen, rejected = orjson.dumps(pair["chosen"]), orjson.dumps(pair["rejected"])
    prompt = orjson.dumps([pair["prompt"], pair.get("tools")])
    return b"\n".join([prompt, *sorted([chosen, rejected])]), chosen
