"""Looks up what analyses measured of a run's datasets, and starts the ones that are missing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from datasets.analyses import queries
from datasets.analyses.operations import MEASURED, NOT_MEASURED, start_analysis
from datasets.models import Analysis, ExampleSet
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.ids import SHOWN
from registry.base_model_queries import BaseModelState
from runs.lengths import NAMED_ROWS, Measured, Need
from runs.queries import examples_of

NAMES = {"training": "dataset", "validation": "validationDataset"}
PREPARED = "prepared-tokens-v1"


@dataclass(frozen=True)
class Subject:
    """A run, submitted or not, as far as its rows' lengths go; `slice` is how many training rows a smoke check
    takes."""

    need: Need
    limit: int
    references: Mapping[str, Any]
    state: BaseModelState
    slice: int | None = None


def look_up(subject: Subject) -> list[Measured]:
    """What is known of the training and of the validation dataset. Starts nothing."""
    return [_measured(subject, part, reference) for part, reference in _datasets(subject)]


def start_missing(subject: Subject, *, actor: Actor) -> None:
    """Start every analysis that the run needs and that could still be made. What refuses it shows when it is looked
    up."""
    for _, reference in _datasets(subject):
        try:
            start_analysis(examples_of(reference), subject.state, actor=actor)
        except OperationError:
            continue


def _datasets(subject: Subject) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for part, name in NAMES.items():
        if subject.references.get(name):
            yield part, subject.references[name]


def _measured(subject: Subject, part: str, reference: Mapping[str, Any]) -> Measured:
    examples, name = examples_of(reference), str(reference["reference"])
    if examples.format == PREPARED:
        return _recorded(subject, part, name, examples)
    unit = MEASURED.get(examples.format, "rows")
    if examples.format not in MEASURED:
        why = NOT_MEASURED.get(examples.format, f"this box does not measure {examples.format}")
        return Measured(part, name, "not_measured", unit, f"Not measured: {why}.")
    if not subject.state.revision:
        return Measured(part, name, "no_commit", unit, f"{subject.state.repository} resolves to no commit yet, so "
                        "there is nothing to measure under.")
    found = queries.find_analysis(examples.pk, subject.state)
    if found is None:
        return Measured(part, name, "no_analysis", unit, "Nothing has measured these rows under this base model yet.",
                        command_of(name, subject.state.repository))
    return _by_analysis(subject, part, name, found, examples)


def _recorded(subject: Subject, part: str, name: str, examples: ExampleSet) -> Measured:
    """Rows that are tokens already: registration counted them by their length. A smoke check takes none of them."""
    details, limit = examples.details, subject.limit
    known = Measured(part, name, "recorded", "rows", rows=examples.num_examples, longest=details["longestRow"],
                     note="Prepared token rows are not analyzed; their tokens were counted at registration.")
    if "lengths" not in details:
        return replace(known, note="Prepared token rows are not analyzed; of these only the longest is known, since "
                       "they were registered by an earlier version. The job refuses a row that does not fit.")
    over = sum(rows for tokens, rows in details["lengths"] if tokens > limit)
    if subject.need.truncation != "error":
        return replace(known, over=over)
    long = tuple((row["place"], row["tokens"]) for row in details["longestRows"] if row["tokens"] > limit)
    return replace(known, over=over, long=long, num_long=over)


def command_of(reference: str, base_model: str) -> str:
    """What starts an analysis."""
    return f"./optimize datasets analyze {reference} --model {base_model}"


def _by_analysis(subject: Subject, part: str, name: str, analysis: Analysis, examples: ExampleSet) -> Measured:
    status = queries.status_of(analysis)
    shared: dict[str, Any] = {"part": part, "reference": name, "status": status,
                              "unit": MEASURED[analysis.examples.format], "analysis_id": analysis.pk,
                              "base_model": analysis.repository, "revision": analysis.revision}
    shown = f"The analysis {analysis.pk[:SHOWN]}"
    command = command_of(name, analysis.repository)
    if status == "unreadable":
        note = f"{shown} is done and its measurements cannot be read any more: {queries.folder_of(analysis)} is gone."
        return Measured(**shared, note=note)
    if status == "failed":
        again = queries.may_succeed(analysis)
        return Measured(**shared, note=f"{shown} failed: {analysis.failure_reason}", command=command if again else None)
    if status == "cancelled":
        return Measured(**shared, note=f"{shown} was cancelled.", command=command)
    if status != "done":
        return Measured(**shared, note=f"{shown} is {status}{_how_far(analysis)}.")
    return _figures(subject, shared, analysis, examples)


def _how_far(analysis: Analysis) -> str:
    stage = analysis.stage
    return f", {stage.get('done') or 0:,} of {stage['total']:,}" if stage.get("total") else ""


def _figures(subject: Subject, shared: dict[str, Any], analysis: Analysis, examples: ExampleSet) -> Measured:
    report, need, limit = analysis.report, subject.need, subject.limit
    rows = subject.slice if shared["part"] == "training" else None
    lengths = queries.lengths_of(analysis, rows)
    is_short = report["lengths"]["longest"] <= limit
    fit = None if is_short else lengths.fit(limit)
    refused = [] if fit is None or not need.by_length else lengths.longest(NAMED_ROWS, over=limit,
                                                                          trimmed=need.by_trimmed)
    num_long = 0 if fit is None or not need.by_length else fit.over_trimmed if need.by_trimmed else fit.over
    problems = [problem for problem in report.get("templateProblems") or [] if rows is None or problem["row"] < rows]
    places = queries.places_of(examples, [*(row.position for row in refused),
                                          *(problem["row"] for problem in problems)])
    return Measured(
        **shared, report=report, rows=lengths.rows, over=fit.over if fit else 0,
        over_trimmed=fit.over_trimmed if fit else 0, longest=report["lengths"]["longest"],
        long=tuple((places[row.position], row.tokens) for row in refused), num_long=num_long,
        bad=tuple((places[problem["row"]], problem["reason"]) for problem in problems),
        num_bad=len(problems) if rows is not None else report.get("templateProblemRows") or 0)
