"""Reads trials and judges."""

from django.db.models import QuerySet

from endpoints import phases
from endpoints.models import Judge, Trial
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.ids import find_by_prefix


def get_trial(text: str) -> Trial:
    """The trial of that ID or beginning of one. Raises NotFound."""
    return find_by_prefix(Trial.objects.select_related("model__artifact"), text.strip().lower(), noun="trial")


def get_judge(text: str) -> Judge:
    """The judge of that ID or beginning of one. Raises NotFound."""
    return find_by_prefix(Judge.objects.select_related("model__artifact"), text.strip().lower(), noun="judge")


def list_judges(*, phase: str = "") -> QuerySet[Judge]:
    """Judges, newest first; `phase` is a phase's name, or `open` for those not given back yet. Raises InvalidInput."""
    rows = Judge.objects.select_related("model__artifact").order_by("-created_at")
    if phase.lower() == "open":
        return rows.filter(ended_at=None)
    if phase and phase.upper() not in phases.JUDGE.next:
        raise InvalidInput(f"There is no phase {phase!r} of a judge.", code="unknown_phase",
                           hint=f"One of open, {', '.join(phases.JUDGE.next)}.")
    return rows.filter(phase=phase.upper()) if phase else rows


def count_judged(holder_kind: str, holder_id: str) -> int:
    """How many answers the judges that are held for this work gave, as far as they said."""
    stages = Judge.objects.filter(holder_kind=holder_kind, holder_id=holder_id, ended_at=None).values_list(
        "stage", flat=True)
    return sum(int(stage.get("done") or 0) for stage in stages)
