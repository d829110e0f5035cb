"""The phase machine that runs, evaluations and preparations share: one table a kind, one function that moves."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Model

from optimize_site.kernel import clock, events
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import PhaseConflict


@dataclass(frozen=True)
class PhaseTable:
    """Which phase may follow which, for one kind of thing. A phase with nothing after it is terminal."""

    kind: str
    next: Mapping[str, frozenset[str]]
    active: frozenset[str] = field(default_factory=frozenset)
    """Phases in which a job holds a lease."""
    resting: frozenset[str] = field(default_factory=frozenset)
    """Phases that end the work although somebody may ask for it again: a retry, a second selection."""

    @property
    def terminal(self) -> frozenset[str]:
        return self.resting | frozenset(phase for phase, after in self.next.items() if not after)

    @property
    def open(self) -> frozenset[str]:
        return frozenset(self.next) - self.terminal


def table(kind: str, edges: Mapping[str, Iterable[str]], *, active: Iterable[str] = (),
          resting: Iterable[str] = ()) -> PhaseTable:
    """A PhaseTable; raises ValueError where a phase leads to one that the table does not list."""
    frozen = {phase: frozenset(after) for phase, after in edges.items()}
    unknown = {to for after in frozen.values() for to in after} - set(frozen)
    if unknown:
        raise ValueError(f"{kind}: phases without a row: {sorted(unknown)}")
    return PhaseTable(kind, frozen, frozenset(active), frozenset(resting))


def move(row: Any, to: str, *, phases: PhaseTable, actor: Actor, reason: str = "", data: dict[str, Any] | None = None,
         **columns: Any) -> None:
    """Move `row` to phase `to` if it is still where and whose `row` says; write the event in the same transaction.

    1. The table must allow it. 2. One UPDATE compares phase and lease token and sets phase, timing and `columns`.
    3. The event is appended. Raises PhaseConflict where the table or the row says no; `row` is refreshed on success.
    """
    old = row.phase
    if to not in phases.next[old]:
        raise PhaseConflict(f"The {phases.kind} {str(row.pk)[:12]} is {old}; it cannot become {to}.", phase=old)
    now = clock.now()
    columns |= {"phase": to, "phase_since": now, "phase_millis": _millis(row, now)}
    if to not in phases.active:
        columns["lease_token"] = None
    if to in phases.terminal and hasattr(row, "ended_at"):
        columns["ended_at"] = now
    _swap(row, old, columns, phases, to, actor, reason, data)
    row.refresh_from_db()


def _swap(row: Model, old: str, columns: dict[str, Any], phases: PhaseTable, to: str, actor: Actor, reason: str,
          data: dict[str, Any] | None) -> None:
    with transaction.atomic():
        same = type(row)._default_manager.filter(pk=row.pk, phase=old, lease_token=row.lease_token)  # type: ignore[attr-defined]
        if same.update(**columns) != 1:
            raise PhaseConflict(f"The {phases.kind} {str(row.pk)[:12]} changed hands or left {old}; read it again.",
                                phase=old)
        events.record(phases.kind, str(row.pk), f"{phases.kind}.{to.lower()}", actor=actor, reason=reason,
                      data={"phase": to, "from": old} | (data or {}))


def _millis(row: Any, now: Any) -> dict[str, int]:
    spent = dict(row.phase_millis)
    spent[row.phase] = spent.get(row.phase, 0) + max(0, int((now - row.phase_since).total_seconds() * 1000))
    return spent
