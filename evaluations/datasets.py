"""Which rows of a dataset an evaluation cannot ask and compare as text."""

from collections.abc import Iterator

from datasets.formats.eval_items import FORMAT as ITEMS
from datasets.lines import Line
from datasets.queries import example_set, lines_of
from datasets.rows import FORMAT as CHAT
from datasets.rows import RowRefused, read_row
from evaluations.errors import AnswerCallsTools, DatasetNotScorable
from optimize_site.kernel.errors import Problem
from registry.models import Version

SHOWN_LINES = 5
MAX_PROBLEMS = 20
RIGHT = ('Right: {"id": "refund-7", "messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": '
         '"the expected answer"}]}.')


def check_scorable(dataset: Version) -> int:
    """How many rows there are to answer. Raises DatasetNotScorable, or AnswerCallsTools naming the lines."""
    if dataset.format not in (CHAT, ITEMS):
        raise DatasetNotScorable(f"{dataset.reference} holds {dataset.format} rows; an evaluation needs chat rows or "
                                 "evaluation items.", hint="Register the held-out rows as chat JSONL.")
    count, calling, problems = 0, list[int](), list[Problem]()
    for line in lines_of(example_set(dataset)):
        count += 1
        if dataset.format == ITEMS:
            problems += _item_problems(line)
        # Most rows name no call at all: parsing only those that do keeps a large dataset quick.
        if b"tool_calls" in line.data and not problems and read_row(line.data)["messages"][-1].get("tool_calls"):
            calling.append(line.number)
    if problems:
        raise _not_asked(dataset, count, problems)
    if calling:
        raise AnswerCallsTools(
            f"The answers of {len(calling)} of the {count} rows of {dataset.reference} call tools (lines "
            f"{_shown(calling)}); an evaluation compares text.", hint="Evaluate on rows whose last message is text.")
    return count


def _item_problems(line: Line) -> Iterator[Problem]:
    """Why an item cannot be asked: registration lets an item hold anything, and one that is asked is a chat row."""
    try:
        read_row(line.data)
    except RowRefused as error:
        for problem in error.problems:
            where = f"line {line.number} of items.jsonl"
            yield Problem(f"{where}: {problem.path}" if problem.path else where, problem.code, problem.message,
                          problem.hint)


def _not_asked(dataset: Version, count: int, problems: list[Problem]) -> DatasetNotScorable:
    number = len({problem.path.partition(":")[0] for problem in problems})
    return DatasetNotScorable(f"{number} of the {count} items of {dataset.reference} cannot be asked: an item that an "
                              "evaluation asks holds the messages of a chat row, the expected answer last.",
                              hint=RIGHT, problems=problems[:MAX_PROBLEMS])


def _shown(lines: list[int]) -> str:
    return ", ".join(map(str, lines[:SHOWN_LINES])) + (" …" if len(lines) > SHOWN_LINES else "")
