"""What a run's saves take on the disk."""

from pathlib import Path

from optimize_site.kernel.work import attempt_folder
from runs import queries
from runs.models import Run


def storage_of(run: Run) -> int:
    """Bytes that the run's snapshots take now: what retention removed, also one kind alone, takes none."""
    folders = {attempt.number: attempt_folder(attempt.pk) for attempt in queries.attempts_of(run)}
    held = run.snapshots.filter(removed_at=None).values_list("attempt", "folder")
    return sum(_size(folders[number] / folder) for number, folder in held if number in folders)


def _size(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except OSError:
        return 0  # removed between the row and the look
