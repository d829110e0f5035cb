"""Which rows of a dataset an evaluation cannot compare as text."""

from datasets.queries import example_set, lines_of
from datasets.rows import FORMAT, read_row
from evaluations.errors import AnswerCallsTools, DatasetNotScorable
from registry.models import Version

SHOWN_LINES = 5


def check_scorable(dataset: Version) -> int:
    """How many rows there are to answer. Raises DatasetNotScorable, or AnswerCallsTools naming the lines."""
    if dataset.format != FORMAT:
        raise DatasetNotScorable(f"{dataset.reference} holds {dataset.format} rows; an evaluation needs chat rows.",
                                 hint="Register the held-out rows as chat JSONL.")
    count, calling = 0, []
    for line in lines_of(example_set(dataset)):
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
