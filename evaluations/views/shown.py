"""What home, box, search and datasets show of workloads, models and evaluations."""

from collections.abc import Iterator
from typing import Any

from django.urls import reverse

from evaluations import phases, queries
from evaluations.models import Evaluation
from optimize_site.kernel.errors import NotFound
from optimize_site.kernel.feeds import Item, feed, finder
from optimize_site.kernel.ids import looks_like_id
from registry.model_queries import list_model_versions
from registry.models import Version, Workload, WorkloadReference
from registry.workload_queries import list_workloads

LATELY = 5


def _item(row: Evaluation) -> Item:
    share = row.num_done / row.num_rows if row.num_rows else None
    judged = " judged" if row.phase == phases.SCORING else ""
    detail = f"{row.workload.name} · {row.dataset.reference} · {row.grader}"
    return Item("Evaluation", row.model_name, reverse("evaluations:detail", args=[row.pk]), row.phase,
                detail=detail, share=share if row.phase in phases.EVALUATION.active else None,
                note=f"{row.num_done:,} of {row.num_rows:,} rows{judged}", at=row.created_at)


@feed("now", 20)
def running(_: Any) -> Iterator[Item]:
    """Evaluations that answer rows now."""
    found = queries.list_evaluations(phase="open").filter(phase__in=phases.EVALUATION.active)
    yield from map(_item, found.order_by("created_at"))


@feed("waiting", 20)
def waiting(_: Any) -> Iterator[Item]:
    """Evaluations that wait, and why."""
    found = queries.list_evaluations(phase="open").exclude(phase__in=phases.EVALUATION.active)
    for row in found.order_by("created_at"):
        yield Item("Evaluation", row.model_name, reverse("evaluations:detail", args=[row.pk]), row.phase,
                   detail=row.wait_reason or "It waits for a free device.", at=row.created_at)


@feed("attention", 20)
def failed(_: Any) -> Iterator[Item]:
    """Evaluations that failed, unless the same was done well since."""
    for row in queries.list_evaluations(phase="failed")[:LATELY]:
        later = queries.newest_evaluation(row.model, row.content_hash, row.grader, row.grader_instructions) \
            if row.model else None
        if later is None or (row.ended_at and later.ended_at and later.ended_at < row.ended_at):
            yield Item("Evaluation", row.model_name, reverse("evaluations:detail", args=[row.pk]), row.phase,
                       detail=f"{row.failure_reason} {row.failure_hint}".strip(), at=row.ended_at)


@feed("promoted", 10)
def promoted(_: Any) -> Iterator[Item]:
    """The champions that were set last."""
    found = WorkloadReference.objects.filter(name="champion").select_related("workload", "version__artifact")
    for reference in found.order_by("-moved_at")[:LATELY]:
        score = (reference.evidence.get("evaluation") or {}).get("meanScore")
        scored = f", scored {score:.4f}" if score is not None else ""
        yield Item("Champion", reference.workload.name, reverse("evaluations:workload", args=[reference.workload.name]),
                   detail=f"{reference.version.reference}{scored}, promoted by {reference.moved_by}",
                   at=reference.moved_at)


@feed("checklist", 30)
def make_a_workload(_: Any) -> Iterator[Item]:
    """The third step of a new box."""
    first = list_workloads().first()
    yield Item("", "Make a workload", reverse("evaluations:workloads" if first else "evaluations:workload-new"),
               detail=f"{first.name} is there." if first else "The task, and the rows and grader that judge every "
               "candidate alike.", is_done=first is not None, action="Make one")


@feed("uses", 20)
def uses_of_dataset(version: Any) -> Iterator[Item]:
    """Workloads that judge by a dataset version, and evaluations over it."""
    for workload in list_workloads(archived=True).filter(evaluation_dataset=version):
        yield Item("Workload", workload.name, reverse("evaluations:workload", args=[workload.name]),
                   detail="Judges its models by it")
    scored = Evaluation.objects.filter(dataset=version).select_related("model__artifact")
    for row in scored.order_by("-created_at")[:10]:
        yield Item("Evaluation", row.model_name, reverse("evaluations:detail", args=[row.pk]), row.phase,
                   detail="Scored on it", at=row.created_at)


def _workload(workload: Workload) -> Item:
    return Item("Workload", workload.name, reverse("evaluations:workload", args=[workload.name]),
                detail=workload.description[:120], at=workload.created_at)


def _model(version: Version) -> Item:
    return Item("Model", version.reference, reverse("evaluations:model", args=[version.pk]), at=version.created_at)


@finder
def named(text: str) -> Iterator[Item]:
    """Workloads and models by part of their name, and anything of these by the beginning of its ID."""
    yield from map(_workload, list_workloads(archived=True).filter(name__icontains=text)[:10])
    space, _, name = text.lower().partition(":")[0].rpartition("/")
    models = list_model_versions().filter(artifact__name__icontains=name)
    yield from map(_model, (models.filter(artifact__namespace__name__icontains=space) if space else models)[:10])
    if looks_like_id(text.lower()):
        prefix = text.lower()
        yield from map(_workload, list_workloads(archived=True).filter(pk__startswith=prefix)[:5])
        yield from map(_model, list_model_versions().filter(pk__startswith=prefix)[:5])
        try:
            yield _item(queries.get_evaluation(prefix))
        except NotFound:
            return
