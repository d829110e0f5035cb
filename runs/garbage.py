"""Saves that were never committed: a job died while it wrote them."""

from collections.abc import Iterator
from datetime import datetime

from optimize_site.kernel.garbage import Waste, waste_at
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.work import attempt_folder
from runs.models import Snapshot
from runs.queries import KIND


def uncommitted_saves(before: datetime) -> Iterator[Waste]:
    """Folders beside an ended attempt's snapshots that no snapshot is about."""
    known = set(Snapshot.objects.filter(removed_at=None).values_list("run", "attempt", "folder"))
    for attempt in Attempt.objects.filter(holder_kind=KIND).exclude(ended_at=None).order_by("started_at"):
        folder = attempt_folder(attempt.pk)
        for path in sorted((folder / "snapshots").glob("*")):
            name = str(path.relative_to(folder))
            found = waste_at("uncommitted save", path, before)
            if found is not None and (attempt.holder_id, attempt.number, name) not in known:
                yield found
