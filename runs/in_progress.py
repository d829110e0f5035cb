"""A workload's unfinished runs, and models that are being made of their snapshots, for archiving it."""

from collections.abc import Iterator

from optimize_site.kernel.in_progress import InProgress
from registry.models import Workload
from runs.models import Candidate
from runs.queries import KIND, open_runs


def runs_in_progress(workload: Workload) -> Iterator[InProgress]:
    """Runs that have not ended; a paused one may still go on."""
    for run in open_runs().filter(workload=workload):
        yield InProgress(KIND, run.pk, run.phase, f"`./optimize runs cancel {run.pk[:12]}` ends it.")


def candidates_in_progress(workload: Workload) -> Iterator[InProgress]:
    """Snapshots of which a model is being made."""
    for candidate in Candidate.objects.filter(phase=Candidate.REGISTERING, snapshot__run__workload=workload):
        yield InProgress("candidate", candidate.pk, candidate.phase, "It is copied in a moment; wait for it.")
