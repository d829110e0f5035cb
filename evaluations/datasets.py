"""What evaluations read of a dataset: its files, its rows, and which rows cannot be compared as text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evaluations.errors import AnswerCallsTools, DatasetNotScorable
from optimize_site.kernel.blobs import blob_path, open_blob
from registry.models import Version

CHAT = "chat-jsonl-v1"
SHOWN_LINES = 5


def files_of(dataset: Version) -> list[Path]:
    """The files that hold the rows, in order."""
    return [blob_path(entry["sha256"]) for entry in _shards(dataset)]


def rows_of(dataset: Version) -> Iterator[tuple[int, bytes]]:
    """Every row's bytes with its line number, counted through all files; blank lines are no rows."""
    number = 0
    for entry in _shards(dataset):
        with open_blob(entry["sha256"]) as file:
            for line in file:
                number += 1
                if line.strip():
                    yield number, line.removeprefix(b"\xef\xbb\xbf")


def first_system_message(dataset: Version) -> str | None:
    """The system message of the first row: how a model trained on it expects to be spoken to."""
    for _, line in rows_of(dataset):
        first: dict[str, Any] = json.loads(line)["messages"][0]
        return str(first["content"]) if first["role"] == "system" else None
    return None


def check_scorable(dataset: Version) -> int:
    """How many rows there are to answer. Raises DatasetNotScorable, or AnswerCallsTools naming the lines."""
    if dataset.format != CHAT:
        raise DatasetNotScorable(f"{dataset.reference} holds {dataset.format} rows; an evaluation needs chat rows.",
                                 hint="Register the held-out rows as chat JSONL.")
    count, calling = 0, []
    for number, line in rows_of(dataset):
        count += 1
        # Most rows name no call at all: parsing only those that do keeps a large dataset quick.
        if b"tool_calls" in line and json.loads(line)["messages"][-1].get("tool_calls"):
            calling.append(number)
    if calling:
        lines = ", ".join(map(str, calling[:SHOWN_LINES])) + (" …" if len(calling) > SHOWN_LINES else "")
        raise AnswerCallsTools(
            f"The answers of {len(calling)} of the {count} rows of {dataset.reference} call tools (lines {lines}); an "
            "evaluation compares text.", hint="Evaluate on rows whose last message is text.")
    return count


def _shards(dataset: Version) -> list[dict[str, Any]]:
    listed = [entry for entry in dataset.objects_listing if str(entry["path"]).endswith(".jsonl")]
    return sorted(listed, key=lambda entry: str(entry["path"]))
