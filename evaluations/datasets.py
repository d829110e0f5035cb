"""What evaluations read of a dataset: its files, its rows, and which rows cannot be compared as text."""

from collections.abc import Iterator

from datasets.lines import Line, read_lines
from datasets.queries import example_set
from datasets.rows import FORMAT, read_row, text_of
from evaluations.errors import AnswerCallsTools, DatasetNotScorable
from optimize_site.kernel.blobs import open_blob, read_chunks
from registry.models import Version

SHOWN_LINES = 5


def rows_of(dataset: Version) -> Iterator[Line]:
    """Every row's line, those of all files in order; blank lines are no rows."""
    for shard in example_set(dataset).shards:
        with open_blob(shard["sha256"]) as file:
            yield from (line for line in read_lines(read_chunks(file)) if not line.is_blank)


def first_system_message(dataset: Version) -> str | None:
    """The system message of the first row: how a model trained on it expects to be spoken to."""
    first = next(rows_of(dataset), None)
    message = read_row(first.data)["messages"][0] if first is not None else {}
    return text_of(message["content"]) if message.get("role") == "system" else None


def check_scorable(dataset: Version) -> int:
    """How many rows there are to answer. Raises DatasetNotScorable, or AnswerCallsTools naming the lines."""
    if dataset.format != FORMAT:
        raise DatasetNotScorable(f"{dataset.reference} holds {dataset.format} rows; an evaluation needs chat rows.",
                                 hint="Register the held-out rows as chat JSONL.")
    count, calling = 0, []
    for line in rows_of(dataset):
        count += 1
        # Most rows name no call at all: parsing only those that do keeps a large dataset quick.
        if b"tool_calls" in line.data and read_row(line.data)["messages"][-1].get("tool_calls"):
            calling.append(line.number)
    if calling:
        lines = ", ".join(map(str, calling[:SHOWN_LINES])) + (" …" if len(calling) > SHOWN_LINES else "")
        raise AnswerCallsTools(
            f"The answers of {len(calling)} of the {count} rows of {dataset.reference} call tools (lines {lines}); an "
            "evaluation compares text.", hint="Evaluate on rows whose last message is text.")
    return count
