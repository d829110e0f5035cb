"""A run's row, as the worker that holds its job writes it."""

from typing import Any

from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.phases import move
from runs.models import Run
from runs.phases import PHASES


def move_on(row: Run, to: str, *, reason: str = "", data: dict[str, Any] | None = None, **columns: Any) -> None:
    """Move the run into another phase, in the name of the box."""
    move(row, to, phases=PHASES, actor=SYSTEM, reason=reason, data=data, **columns)


def keep(row: Run, **columns: Any) -> None:
    """Store columns that no phase move carries, and let `row` show them to the next event."""
    Run.objects.filter(pk=row.pk).update(**columns)
    for name, value in columns.items():
        setattr(row, name, value)
