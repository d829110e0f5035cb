"""Reads trials and judges."""

from typing import Any

from django.db.models import Case, Count, Exists, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce

from endpoints import phases
from endpoints.models import Judge, Trial
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.ids import find_by_prefix
from optimize_site.kernel.models import Attempt, Event
from runs.models import Run


def get_trial(text: str) -> Trial:
    """The trial of that ID or beginning of one. Raises NotFound."""
    return find_by_prefix(Trial.objects.select_related("model__artifact"), text.strip().lower(), noun="trial")


def get_judge(text: str) -> Any:
    """The judge of that ID or beginning of one. Raises NotFound."""
    return find_by_prefix(_judges(), text.strip().lower(), noun="judge")


def list_judges(*, phase: str = "", held_for: str = "") -> QuerySet[Any]:
    """Judges, newest first; `phase` is a phase's name, or `open` for those not given back yet, `held_for` the ID, or
    the beginning of one, of a run or an evaluation. Raises InvalidInput."""
    rows = _judges().order_by("-created_at")
    if held_for:
        rows = rows.filter(holder_id__startswith=held_for.strip().lower())
    if phase.lower() == "open":
        return rows.filter(ended_at=None)
    if phase and phase.upper() not in phases.JUDGE.next:
        raise InvalidInput(f"There is no phase {phase!r} of a judge.", code="unknown_phase",
                           hint=f"One of open, {', '.join(phases.JUDGE.next)}.")
    return rows.filter(phase=phase.upper()) if phase else rows


def _judges() -> QuerySet[Any]:
    """Judges, each with `num_lost`, how often its job was lost, and `is_resting`: whether its run is paused, so that
    the same model is held again once the run goes on."""
    lost = Attempt.objects.filter(holder_kind="judge", holder_id=OuterRef("pk"), outcome="lost").order_by()
    counted = lost.values("holder_id").annotate(times=Count("pk")).values("times")
    paused = Run.objects.filter(pk=OuterRef("holder_id"), phase="PAUSED")
    newer = Judge.objects.filter(holder_kind=OuterRef("holder_kind"), holder_id=OuterRef("holder_id"),
                                 model=OuterRef("model"), created_at__gt=OuterRef("created_at"))
    rests = Q(phase=phases.RELEASED, holder_kind="run") & Q(Exists(paused)) & ~Q(Exists(newer))
    return Judge.objects.select_related("model__artifact").annotate(
        num_lost=Coalesce(Subquery(counted), 0), is_resting=Case(When(rests, then=Value(True)), default=Value(False)))


def events_of(judge: Judge) -> QuerySet[Event]:
    """What befell a judge, newest first."""
    return Event.objects.filter(subject_kind="judge", subject_id=judge.pk).order_by("-id")


def count_judged(holder_kind: str, holder_id: str) -> int:
    """How many answers the judges that are held for this work gave, as far as they said."""
    stages = Judge.objects.filter(holder_kind=holder_kind, holder_id=holder_id, ended_at=None).values_list(
        "stage", flat=True)
    return sum(int(stage.get("done") or 0) for stage in stages)
