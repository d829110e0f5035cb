"""Evaluation items: a ZIP of dataset.json, the items one JSON object a line, and the fixture they are asked over."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datasets.formats import Archive, ArchiveFormat, FormatFacts
from datasets.formats.archives import object_of, read_descriptor, refuse, refuse_one, sizes
from datasets.lines import MAX_LINE_BYTES, Line, read_lines
from datasets.strict_json import LineRefused, parse_line
from optimize_site.kernel.archives import read_entry
from optimize_site.kernel.errors import Problem

FORMAT = "eval-items-v1"
DESCRIPTOR, ITEMS = "dataset.json", "items.jsonl"
MAX_PROBLEMS = 20
RIGHT = '{"format": "eval-items-v1", "fixture": "fixtures/shop-db.json"}'


@contextmanager
def read_eval_items(path: Path) -> Iterator[Archive]:
    """A ZIP of evaluation items, every item checked. Raises DatasetInvalid, ArchiveRefused."""
    files = sizes(path)
    descriptor = read_descriptor(path, DESCRIPTOR, files[DESCRIPTOR])
    fixture = _fixture(descriptor, files)
    if ITEMS not in files:
        refuse_one(ITEMS, "items_missing", f"The archive has no {ITEMS}.", "It holds the items, one object a line.")
    number = _count_items(path)
    names = [DESCRIPTOR, ITEMS, *([fixture] if fixture else [])]
    others = [name for name in files if name not in names]
    if others:
        refuse_one(others[0], "unexpected_object", f"The archive holds {others[0]}, which {DESCRIPTOR} does not state "
                   "as its fixture.", f"Right: {RIGHT}.")
    yield Archive(FORMAT, number, [object_of(path, name) for name in names], {ITEMS: number},
                  FormatFacts(details=dict(descriptor)))


EVAL_ITEMS = ArchiveFormat(FORMAT, DESCRIPTOR, read_eval_items)


def _fixture(descriptor: Mapping[str, Any], files: Mapping[str, int]) -> str:
    """The path of the fixture the descriptor states; empty where it states none."""
    if descriptor.get("format", FORMAT) != FORMAT:
        refuse_one(f"{DESCRIPTOR}: format", "other_format", f"The format is {str(descriptor['format'])[:60]}; an "
                   f"archive with a {DESCRIPTOR} is {FORMAT}.", f"Right: {RIGHT}.")
    fixture = descriptor.get("fixture")
    if fixture is None:
        return ""
    if not isinstance(fixture, str) or fixture not in files or fixture in (DESCRIPTOR, ITEMS):
        refuse_one(f"{DESCRIPTOR}: fixture", "fixture_missing", f"The fixture {str(fixture)[:60]} is not a file of the "
                   "archive.", f"It holds {', '.join(list(files)[:5])}.")
    return fixture


def _count_items(path: Path) -> int:
    number, num_bad = 0, 0
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for line in read_lines(read_entry(path, ITEMS)):
        if line.is_blank:
            continue
        number += 1
        problem = _item_problem(line, seen)
        num_bad += problem is not None
        if problem is not None and len(problems) < MAX_PROBLEMS:
            problems.append(problem)
    if problems:
        refuse(problems, num_bad)
    if not number:
        refuse_one(ITEMS, "no_items", "The file holds no item.")
    return number


def _item_problem(line: Line, seen: dict[str, int]) -> Problem | None:
    """What is wrong with one item: it is an object that holds something, and an id it has is its own."""
    where = f"line {line.number} of {ITEMS}"
    if line.is_too_long:
        return Problem(where, "line_too_long", f"The line is longer than {MAX_LINE_BYTES >> 20} MiB.")
    try:
        item = parse_line(line.data)
    except LineRefused as error:
        found = error.problem
        return Problem(f"{where}: {found.path}" if found.path else where, found.code, found.message, found.hint)
    if not isinstance(item, dict):
        return Problem(where, "not_an_object", "An item is a JSON object.")
    if all(value is None for key, value in item.items() if key != "id"):
        return Problem(where, "item_empty", "The item holds nothing to ask.",
                       'For instance {"id": "refund-7", "input": "Where is my refund?"}.')
    name = item.get("id")
    if name is None:
        return None
    if not isinstance(name, str) or not name:
        return Problem(f"{where}: id", "id_invalid", "An id is a text.", 'For instance "id": "refund-7".')
    if name in seen:
        return Problem(f"{where}: id", "id_repeated", f'The id "{name[:60]}" is that of line {seen[name]}.',
                       "Give each item an id of its own.")
    seen[name] = line.number
    return None
