"""Reads workloads; `project` is another word for one."""

from django.db.models import QuerySet

from optimize_site.kernel.errors import NotFound
from optimize_site.kernel.ids import HEX, find_by_prefix
from optimize_site.kernel.models import Event
from registry.models import Workload, WorkloadReference


def list_workloads(*, archived: bool = False) -> QuerySet[Workload]:
    """Workloads, newest first; archived ones too where they are asked for."""
    rows = Workload.objects.select_related("namespace", "evaluation_dataset__artifact").order_by("-created_at")
    return rows if archived else rows.filter(archived_at=None)


def find_workload(text: str) -> Workload | None:
    """The workload of that name, ID or beginning of an ID; None where there is none. Raises AmbiguousPrefix."""
    text = text.strip()
    every = list_workloads(archived=True)
    named = every.filter(name=text).first()
    if named is not None:
        return named
    if HEX.fullmatch(text) is None or len(text) < 4:
        return None
    try:
        return find_by_prefix(every, text, noun="workload")
    except NotFound as error:
        if error.code != "not_found":
            raise
        return None


def get_workload(text: str) -> Workload:
    """The workload that `text` names. Raises NotFound."""
    found = find_workload(text)
    if found is None:
        raise NotFound(f"There is no workload {text!r}.", code="unknown_workload",
                       hint=f"`workloads list` shows them; `workloads create {text or 'NAME'}` makes one.")
    return found


def told_by_workload(workload: Workload, grader: str) -> str:
    """What the workload states for a judge; it holds for the workload's own grader alone, and for no other."""
    return workload.grader_instructions if grader == workload.grader else ""


def references_of(workload: Workload) -> dict[str, WorkloadReference]:
    """The workload's references by name: base, candidate, champion, as far as they are set."""
    found = workload.references.select_related("version__artifact")
    return {reference.name: reference for reference in found}


def history_of(workload: Workload) -> QuerySet[Event]:
    """Everything that was changed about a workload, oldest first."""
    return Event.objects.filter(subject_kind="workload", subject_id=workload.pk).order_by("id")
