"""Whether the rows of a run agree with each other: configuration, phases, attempts and figures. Reads, changes nothing.

The caller holds the run's row, so that nothing moves between two looks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from django.db.models import Count

from optimize_site.kernel.models import Lease
from runs import queries
from runs.models import Run
from runs.phases import PHASES
from runs.resolve import config_hash

FIRST_PHASE = "RESOLVING_DATASET"
MOST_NAMED = 5


@dataclass(frozen=True)
class Checked:
    """One thing that was verified: how many of what were looked at, and each disagreement as a sentence."""

    name: str
    count: int
    unit: str
    problems: tuple[str, ...]


def check_records(run: Run) -> Iterator[Checked]:
    """The checks that need no file."""
    yield Checked("configuration", 1, "hash", tuple(_configuration(run)))
    moves = [(event.data["from"], event.data["phase"]) for event in queries.events_of(run).filter(data__has_key="from")]
    yield Checked("phases", len(moves), "moves", tuple(_phases(run, moves)))
    attempts = list(queries.attempts_of(run).values_list("number", flat=True))
    yield Checked("attempts", len(attempts), "attempts", (*_numbers(run, attempts), *_leases(run)))
    rows = list(run.metrics.order_by("step").values_list("step", "attempt"))
    yield Checked("figures", len(rows), "updates", tuple(_figures(run, rows)))
    kept = dict(run.rollout_steps.order_by("step").values_list("step", "count"))
    if kept:
        yield Checked("rollouts", len(kept), "updates", tuple(_rollouts(run, kept, [step for step, _ in rows])))


def _configuration(run: Run) -> Iterator[str]:
    found = config_hash(run.config)
    if found != run.config_hash:
        yield f"The configuration hashes to {found}, and {run.config_hash} was recorded."


def _phases(run: Run, moves: list[tuple[str, str]]) -> Iterator[str]:
    at = FIRST_PHASE
    for before, after in moves:
        if before != at:
            yield f"An event moves the run from {before}; the one before had left it {at}."
        if after not in PHASES.next.get(before, ()):
            yield f"The run moved from {before} to {after}; no run may."
        at = after
    if at != run.phase:
        yield f"The run is {run.phase}, and its last event left it {at}."


def _numbers(run: Run, numbers: list[int]) -> Iterator[str]:
    if numbers != list(range(1, run.num_attempts + 1)):
        yield f"The run counts {run.num_attempts} attempts; those recorded are {_named(numbers)}."


def _leases(run: Run) -> Iterator[str]:
    """A run holds one slot exactly while its job is active."""
    held = list(Lease.objects.filter(holder_kind=queries.KIND, holder_id=run.pk, released_at=None)
                .values_list("token", flat=True))
    wanted = [] if run.lease_token is None else [run.lease_token]
    if held != wanted:
        yield f"The run is {run.phase} under {_tokens(wanted)}, and its slots are held under {_tokens(held)}."


def _figures(run: Run, rows: list[tuple[int, int]]) -> Iterator[str]:
    steps = {step for step, _ in rows if step > 0}
    missing = sorted(set(range(1, max(steps, default=0) + 1)) - steps)
    if missing:
        yield f"The figures of {len(missing)} updates are missing: {_named(missing)}."
    if run.phase != "COMPLETED":
        return
    final = run.snapshots.filter(is_final=True).order_by("-attempt").first()
    if final is not None and final.step != max(steps, default=0):
        yield f"The final save is of update {final.step}, and the last figures are of update {max(steps, default=0)}."
    yield from _replayed(rows)


def _replayed(rows: list[tuple[int, int]]) -> Iterator[str]:
    """Later updates come from later attempts: what an attempt repeated took the place of what was lost."""
    for (before, earlier), (step, attempt) in pairwise([row for row in rows if row[0] > 0]):
        if attempt < earlier:
            yield (f"The figures of update {step} are of attempt {attempt}, those of update {before} of attempt "
                   f"{earlier}.")
            return


def _rollouts(run: Run, kept: Mapping[int, int], told: Iterable[int]) -> Iterator[str]:
    """Every update that told its figures has its rollouts, as many as its job handed over."""
    missing = sorted({step for step in told if step > 0} - set(kept))
    if missing:
        yield f"The rollouts of {len(missing)} updates are missing: {_named(missing)}."
    found = dict(run.rollouts.values_list("step").annotate(count=Count("pk")).order_by("step"))
    for step, count in kept.items():
        if found.get(step, 0) != count:
            yield f"Of update {step} {found.get(step, 0)} rollouts are kept, and its job handed over {count}."
            return


def _named(numbers: Iterable[int]) -> str:
    found = [str(number) for number in numbers]
    return ", ".join(found[:MOST_NAMED] + ["…"] * (len(found) > MOST_NAMED)) or "none"


def _tokens(tokens: list[int]) -> str:
    return f"token {', '.join(map(str, tokens))}" if tokens else "no token"
