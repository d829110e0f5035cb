"""The rule of templates that do not render a system message alone with tools (Llama 3.2).

They put the tools into the first user message. A run that renders each message of a row on its own cannot render such
a row, so it refuses rows that have both; a run that renders rows whole trains them.
"""

from __future__ import annotations

from typing import Any

from optimize_child.reading.refusals import RefusedRows, refuse_rows
from optimize_child.rendering.masks import Policy
from optimize_child.rendering.turns import turn_starts

RULE = "system_needs_user_with_tools"


class SystemAlone:
    """Watches the rows of all of a run's datasets, because one of them decides how all are rendered."""

    def __init__(self, policy: Policy) -> None:
        self._each_message = "the run states a loss policy" if policy != Policy() else ""
        self._rows = RefusedRows()

    def see(self, dataset: str, place: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> None:
        """A row as it was read."""
        if len(turn_starts(messages)) > 1:
            self._each_message = self._each_message or f"{place} of the {dataset} dataset has several turns"
        if tools and messages[0]["role"] == "system":
            self._rows.add(f"{place} of the {dataset} dataset", "a system message beside tools")

    def see_trimmed(self, dataset: str, place: str) -> None:
        """A row whose oldest turns have to go."""
        self._each_message = self._each_message or f"{place} of the {dataset} dataset is longer than maxSeqLength"

    def refuse(self) -> None:
        """Raise JobFailure for the rows that have both, where each message is rendered on its own."""
        if self._each_message:
            refuse_rows(
                self._rows,
                f"cannot be trained on: the chat template renders no system message alone with tools, and "
                f"{self._each_message}, so each message is rendered on its own",
                "Take the tools or the system message out of these rows, or train them in a run of single-turn rows "
                "under the default loss settings.",
            )
