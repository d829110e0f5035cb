"""Looks for rows to judge by among rows to train on: quickly for a dry run, or all of them, request by request.

Comparing everything goes on from where the request before stopped, so that each answers soon; what was found is kept in
the state folder by the two content hashes and can be thrown away.
"""

import json
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import orjson

from datasets.errors import RowsNotComparable
from datasets.formats.eval_items import FORMAT as ITEMS
from datasets.leakage import NEAR, Judged, Overlap
from datasets.models import ExampleSet
from datasets.pairs import FORMAT as PREFERENCE
from datasets.queries import example_set
from datasets.row_pages import Budget
from datasets.rows import FORMAT as CHAT
from datasets.rows import RowRefused, read_row
from datasets.stored_rows import rows_from, sampled_rows
from optimize_site.kernel.conf import home
from registry.models import Version

METHOD = 2
"""Of the way rows are compared; what an earlier way found is not gone on from."""
MOST_JUDGED_ROWS, MOST_JUDGED_BYTES = 5_000, 16 * 1024 * 1024
QUICK_ROWS, QUICK_JUDGED_ROWS, QUICK_BYTES = 2_500, 1_000, 3 * 1024 * 1024
COMPARABLE = (CHAT, PREFERENCE)
JUDGING = (*COMPARABLE, ITEMS)
"""What rows to judge by may be; an item that is no chat row is compared with none."""
NAMED_BY = 32


def compare(training: Version, judged: Version, budget: Budget | None = None) -> dict[str, Any]:
    """Compare further rows of `training` with `judged` for as long as the budget allows; what is known so far.

    `coverage.complete` says whether all was compared; where not, ask again. Raises RowsNotComparable, RowsGone.
    """
    budget = budget or Budget()
    sets = _comparable(training, COMPARABLE), _comparable(judged, JUDGING)
    kept = _place(training, judged)
    done = _read(kept) or {"next": 0, "state": None, "judgedRead": 0}
    if done["next"] is not None:
        done = _further(*sets, done, budget)
        _write(kept, done)
    return _document(training, judged, done)


def compare_quickly(training: Version, judged: Version) -> dict[str, Any] | None:
    """What is known of all their rows, else what a sample of both shows; None where they cannot be compared."""
    examples = example_set(training), example_set(judged)
    if examples[0].format not in COMPARABLE or examples[1].format not in JUDGING:
        return None
    done = _read(_place(training, judged))
    if done is None or done["next"] is not None:
        done = _sampled(*examples)
    return _document(training, judged, done)


def _sampled(training: ExampleSet, judged: ExampleSet) -> dict[str, Any]:
    known = _judged(judged, QUICK_JUDGED_ROWS, QUICK_BYTES)
    overlap = Overlap(known)
    for row in sampled_rows(training, QUICK_ROWS, QUICK_BYTES):
        overlap.add(row.position, orjson.loads(row.data))
    return {"next": 0, "state": overlap.state(), "judgedRead": known.num_rows}


def _comparable(version: Version, formats: Collection[str]) -> ExampleSet:
    examples = example_set(version)
    if examples.format not in formats:
        raise RowsNotComparable(f"{version.reference} holds {examples.format} rows; what rows ask can be compared "
                                f"between {' and '.join(COMPARABLE)} rows.",
                                hint="Compare the conversations that they were made from.")
    return examples


def _judged(examples: ExampleSet, most_rows: int, most_bytes: int) -> Judged:
    judged = Judged()
    for row in sampled_rows(examples, most_rows, most_bytes):
        if examples.format != ITEMS or _is_chat(row.data):
            judged.add(row.position, orjson.loads(row.data))
    return judged


def _is_chat(data: bytes) -> bool:
    """Whether an evaluation item, which may hold anything, is a chat row."""
    try:
        read_row(data)
    except RowRefused:
        return False
    return True


def _further(training: ExampleSet, judged: ExampleSet, done: dict[str, Any], budget: Budget) -> dict[str, Any]:
    began = budget.clock()
    known = _judged(judged, MOST_JUDGED_ROWS, MOST_JUDGED_BYTES)
    # Every request reads the rows to judge by anew: as long as that takes it compares, or little else would be done.
    budget.seconds = max(budget.seconds, budget.clock() - began)
    overlap = Overlap(known)
    if done["state"]:
        overlap.restore(done["state"])
    following = None
    rows = rows_from(training, done["next"])
    for row in rows:
        overlap.add(row.position, orjson.loads(row.data))
        budget.spend(len(row.data))
        if budget.is_spent:
            following = row.position + 1 if row.position + 1 < training.num_examples else None
            break
    return {"next": following, "state": overlap.state(), "judgedRead": known.num_rows}


def _document(training: Version, judged: Version, done: dict[str, Any]) -> dict[str, Any]:
    state, total, judged_total = done["state"], *(example_set(version).num_examples for version in (training, judged))
    found = {name: {key: value for key, value in state[name].items() if key != "judged"} for name in ("exact", "near")}
    coverage = {"read": state["read"], "total": total, "evaluationRead": done["judgedRead"],
                "evaluationTotal": judged_total,
                "complete": state["read"] >= total and done["judgedRead"] >= judged_total}
    return {"training": training.reference, "evaluation": judged.reference,
            "coverage": coverage | {"note": _note(coverage), "isOver": done["next"] is None},
            "exact": found["exact"], "near": found["near"] | {"threshold": round(NEAR, 2)}}


def _note(coverage: dict[str, Any]) -> str:
    if coverage["complete"]:
        return ""
    return (f"Compared {coverage['read']:,} of {coverage['total']:,} rows with {coverage['evaluationRead']:,} of "
            f"{coverage['evaluationTotal']:,} to judge by; the rest may differ.")


def _place(training: Version, judged: Version) -> Path:
    return overlaps_folder() / f"{training.content_hash[:NAMED_BY]}-{judged.content_hash[:NAMED_BY]}.json"


def overlaps_folder() -> Path:
    """Where it is kept what comparing found."""
    return home() / "overlaps"


def is_wanted(place: Path, known: Collection[str]) -> bool:
    """Whether a file of the folder is worth keeping: a comparison that is over, of two sets of examples that are among
    the `known` ones, each by the NAMED_BY first digits of its hash."""
    training, _, judged = place.stem.partition("-")
    done = _read(place) if training in known and judged in known else None
    return done is not None and done["next"] is None


def _read(place: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(place.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found if found.get("method") == METHOD else None


def _write(place: Path, done: dict[str, Any]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".overlap-", delete=False) as file:
        file.write(orjson.dumps(done | {"method": METHOD}))
    Path(file.name).replace(place)
