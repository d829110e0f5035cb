"""Reads evaluations, their predictions, and which evaluation speaks for a model."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, F, QuerySet

from evaluations import phases
from evaluations.judging import told_by
from evaluations.models import Evaluation, Prediction, PredictionQuerySet
from evaluations.rules import is_rule
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.ids import find_by_prefix
from registry.models import Version, Workload

NOT_ANSWERED = ("prompt_too_long",)
"""Causes that are the row's own, told by the job that answers."""


def list_evaluations(*, model: Version | None = None, phase: str = "", workload: Workload | None = None,
                     archived: bool = False) -> QuerySet[Evaluation]:
    """Evaluations, newest first; the filters combine. `phase` is a phase's name, or `open` for all that are unfinished.

    Without `archived`, those of archived workloads are left out, unless such a workload is named. Raises InvalidInput
    for a phase that there is not.
    """
    rows = _evaluations().order_by("-created_at")
    if model is not None:
        rows = rows.filter(model=model)
    if workload is not None:
        rows = rows.filter(workload=workload)
    elif not archived:
        rows = rows.filter(workload__archived_at=None)
    if phase.lower() == "open":
        return rows.filter(phase__in=phases.OPEN)
    if phase and phase.upper() not in phases.EVALUATION.next:
        raise InvalidInput(f"There is no phase {phase!r} of an evaluation.", code="unknown_phase",
                           hint=f"One of open, {', '.join(phases.EVALUATION.next)}.")
    return rows.filter(phase=phase.upper()) if phase else rows


def get_evaluation(text: str) -> Evaluation:
    """The evaluation of that ID or beginning of one. Raises NotFound."""
    return find_by_prefix(_evaluations(), text.strip().lower(), noun="evaluation")


def list_predictions(evaluation: Evaluation, *, wrong_first: bool = False) -> QuerySet[Prediction]:
    """The answers in the dataset's order, or the worst first with the unscored ahead."""
    rows = evaluation.predictions.all()
    return rows.order_by(F("score").asc(nulls_first=True), "position") if wrong_first else rows.order_by("position")


def speaking_for(version: Version, workload: Workload) -> Evaluation | None:
    """The evaluation that speaks for a model in a workload: the newest on its present dataset by its present grader,
    which where it is a model was told what the workload states for it, else what it inherits."""
    dataset = workload.evaluation_dataset
    told = told_by(workload.grader, dataset, workload) if dataset is not None else None
    if dataset is None or told is None:
        return None
    return newest_evaluation(version, dataset.content_hash, workload.grader, told)


def count_causes(evaluation: Evaluation) -> dict[str, int]:
    """How many answers have no score, by the cause why, so far."""
    counted = evaluation.predictions.unscored().values("unscored_cause").annotate(rows=Count("id"))
    return {row["unscored_cause"]: row["rows"] for row in counted.order_by("unscored_cause")}


def list_failures(evaluation: Evaluation) -> PredictionQuerySet:
    """The answers that a grader gave no score and may be asked for again. Rules say the same again, and a row that was
    not answered has nothing to be judged by."""
    found = evaluation.predictions.unscored().exclude(unscored_cause__in=NOT_ANSWERED)
    return found.none() if is_rule(evaluation.grader) else found


def newest_evaluation(version: Version, content_hash: str, grader: str, told: str = "") -> Evaluation | None:
    """The newest completed evaluation of a model on these rows by this grader, told the same where it is a model."""
    return _evaluations().filter(model=version, content_hash=content_hash, grader=grader, grader_instructions=told,
                                 phase=phases.COMPLETED).order_by("-ended_at").first()


def newest_by_model(version_ids: Iterable[Any], content_hash: str, grader: str,
                    told: str = "") -> dict[str, Evaluation]:
    """For each of these models its newest such evaluation, if it has one."""
    rows = _evaluations().filter(model__in=list(version_ids), content_hash=content_hash, grader=grader,
                                 grader_instructions=told, phase=phases.COMPLETED)
    rows = rows.order_by("model", "-ended_at").distinct("model")
    return {row.model_id: row for row in rows if row.model_id is not None}


def _evaluations() -> QuerySet[Evaluation]:
    return Evaluation.objects.select_related("workload", "model__artifact", "dataset__artifact")
