"""Where a run goes once its job is gone: recorded, paused, tried again or failed."""

from typing import Any

from optimize_site.kernel import clock, doorbell, events
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.conf import setting
from optimize_site.kernel.losses import LOST as LOST_CODE
from optimize_site.kernel.losses import STALLED, stall_words
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.work import Ending
from runs import killed, queries
from runs.job_row import keep, move_on
from runs.models import Run
from runs.operations.ending import fail_run
from runs.operations.resting import failure_words, has_rested_at, is_pausing, rest
from runs.operations.smaller_passes import OUT_OF_DEVICE_MEMORY, halved_execution, halved_warning
from runs.phases import LOST, PHASES

TRIED_AGAIN = frozenset({"unexpected", "snapshot_invalid", "job_not_started", "scorer_lost", "rollout_engine_lost"})
"""Failures that another attempt may not meet again; every other one would only repeat."""


def settle(row: Run, attempt: Attempt, ending: Ending) -> None:
    """Where the run goes now that its job is gone: on to its record, to its end, to its rest or back to the line.
    Told twice, it changes nothing."""
    if row.phase not in PHASES.active:
        return
    _charge(row, attempt)
    events.record(queries.KIND, row.pk, "run.attempt_ended", actor=SYSTEM, data={
        "attempt": attempt.number, "outcome": ending.outcome, "code": row.failure_code,
        "exit": _exit_record(ending)})
    if ending.outcome == "finished":
        move_on(row, "RECORDING", failure_code="", failure_reason="", failure_hint="", failure_evidence={})
    elif row.cancel_requested_at is not None:
        move_on(row, "CLEANING_UP", reason="cancelled", failure_code="", failure_reason="", failure_hint="",
                failure_evidence={})
    elif _is_where_its_plan_pauses(row):
        _rest(row, ending)
    elif ending.outcome == "failed":
        _settle_failure(row, attempt, ending)
    elif is_pausing(row):
        _rest(row, ending)
    elif ending.outcome == "stopped":
        _requeue(row, reason="The job was stopped and waits for a device again.", through_pausing=True)
    else:
        _settle_loss(row, attempt, ending)
    doorbell.ring_control()


def _charge(row: Run, attempt: Attempt) -> None:
    ended = attempt.ended_at or clock.now()
    seconds = max(0.0, (ended - attempt.started_at).total_seconds())
    keep(row, device_seconds=row.device_seconds + seconds * row.execution["gpus"])


def _settle_failure(row: Run, attempt: Attempt, ending: Ending) -> None:
    """A failure that may pass is tried once more; the same one twice in a row, or one that would repeat, is the end."""
    smaller = halved_execution(row) if row.failure_code == OUT_OF_DEVICE_MEMORY else None
    if smaller is not None:
        keep(row, execution=smaller, warnings=[*row.warnings, halved_warning(smaller)])
        _try_again(row, ending)
        return
    if row.failure_code in TRIED_AGAIN and _previous_code(row, attempt) != row.failure_code:
        _try_again(row, ending)
        return
    hint = row.failure_hint
    if row.failure_code == killed.CODE:
        hint = killed.with_judges(hint, row.predicted_memory)
    fail_run(row, code=row.failure_code or "unexpected", hint=hint, evidence=row.failure_evidence,
             reason=row.failure_reason or "The job failed without a reason.")


def _try_again(row: Run, ending: Ending) -> None:
    """Back to the line, or to the rest that was asked for, which then says what failed."""
    if is_pausing(row):
        _rest(row, ending)
    else:
        _requeue(row, reason=row.failure_reason)


def _previous_code(row: Run, attempt: Attempt) -> str:
    ended = queries.events_of(row).filter(type="run.attempt_ended", data__attempt=attempt.number - 1).last()
    return ended.data["code"] if ended is not None else ""


def _settle_loss(row: Run, attempt: Attempt, ending: Ending) -> None:
    """A job that died without a word is started again, until it keeps dying without a new save."""
    if ending.exit.get("oom_kill"):
        reason, hint = killed.killed_words(ending.exit, row.predicted_memory)
        fail_run(row, code=killed.CODE, reason=reason, hint=hint, evidence={"exit": ending.exit})
        return
    lost = _losses_in_a_row(row)
    is_last = lost >= setting("trainer.jobs.max-attempts")
    if ending.is_stall:
        _settle_stall(row, attempt, ending, times=lost, is_last=is_last)
        return
    if is_last:
        fail_run(row, code=LOST_CODE, reason=f"This run's job ended {lost} times in a row without saying why and "
                 f"without a new save; the last time with {_exit_words(ending)}.",
                 hint="Its log says more: `./optimize runs log RUN`.",
                 evidence={"exit": ending.exit, "lastWords": ending.last_words[-2000:]})
        return
    _requeue(row, reason=f"The job ended with {_exit_words(ending)}; the run goes on from its newest save.")


def _settle_stall(row: Run, attempt: Attempt, ending: Ending, *, times: int, is_last: bool) -> None:
    """A job that stopped getting on is started again like any lost one; what it was at stays with its attempt."""
    said, hint = stall_words(ending)
    reason = f"This run's job {said} at update {row.observed_step}"
    if is_last:
        fail_run(row, code=STALLED, reason=f"{reason}; {times} in a row were lost without a new save.", hint=hint,
                 evidence={"exit": _exit_record(ending), "stalled": ending.exit["stalled"]})
        return
    keep(row, warnings=[*row.warnings, {"code": STALLED, "message": f"{reason}, in attempt {attempt.number}. {hint}"}])
    _requeue(row, reason=f"{reason}; the run goes on from its newest save.")


def _losses_in_a_row(row: Run) -> int:
    saved = set(row.snapshots.values_list("attempt", flat=True))
    count = 0
    for attempt in queries.attempts_of(row).exclude(ended_at=None).reverse():
        if attempt.outcome != "lost":
            break
        count += 1
        if attempt.number in saved:
            break
    return count


def _exit_record(ending: Ending) -> dict[str, Any]:
    """The shepherd's record alone: stacks are long, and stand with the attempt."""
    return {name: value for name, value in ending.exit.items() if name != "stalled"}


def _exit_words(ending: Ending) -> str:
    if ending.exit.get("signal"):
        return f"signal {ending.exit['signal']}"
    return f"status {ending.exit['code']}" if ending.exit.get("code") is not None else "no exit record"


def _is_where_its_plan_pauses(row: Run) -> bool:
    """Whether the save of the update at which its plan pauses is committed, and the run has not rested there yet.

    However its job ended then: it trains no further than there. At the last update there is nothing to pause for.
    """
    at = row.pause_at_step
    if at is None or (row.saved_step or 0) < at or (row.total_steps is not None and at >= row.total_steps):
        return False
    return not has_rested_at(row, at)


def _rest(row: Run, ending: Ending) -> None:
    """A pause comes about, also where the job died on its way: nothing is held, and what was saved is what counts."""
    if row.phase != "PAUSING":
        move_on(row, "PAUSING", reason="The job ended where it was to pause.")
    rest(row, ended=_pausing_end(row, ending))


def _pausing_end(row: Run, ending: Ending) -> str:
    """How a job ended that was asked to save, in case it had not; empty where it had trained nothing to be saved."""
    if ending.outcome == "failed":
        return failure_words(row)
    if ending.outcome == "stopped":
        return "The job stopped before it had saved." if row.observed_step else ""
    return f"The job ended with {_exit_words(ending)} before it had saved."


def _requeue(row: Run, *, reason: str, through_pausing: bool = False) -> None:
    """Back to the line, to the place that the run had in it: what waits behind it came later."""
    if through_pausing and row.phase in {"QUEUED", "PREPARING", "TRAINING"}:
        move_on(row, "PAUSING", reason=reason)
    move_on(row, LOST, reason=reason, stage={})
    doorbell.ring_devices()
