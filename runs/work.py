"""The kind of work that trains a run: what waits, what to run, what its events mean, how its job ended."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from django.db.models import Q, QuerySet

from datasets.plan import dataset_part
from optimize_site.kernel import clock, doorbell, events
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import Unavailable
from optimize_site.kernel.judges import keeper
from optimize_site.kernel.losses import LOST as LOST_CODE
from optimize_site.kernel.losses import STALLED, stall_words
from optimize_site.kernel.models import Attempt, Device
from optimize_site.kernel.phases import move
from optimize_site.kernel.plan_parts import base_model_part
from optimize_site.kernel.work import Ask, Ending, OneByOne, attempt_folder
from registry.base_model_queries import base_model_state
from runs import killed, queries
from runs.compared_figures import newest_figures
from runs.descriptor import REINFORCEMENT
from runs.engine_runtime import begun, with_parts
from runs.errors import SnapshotDamaged
from runs.models import Metric, Run, Snapshot
from runs.operations import pausing, smoke
from runs.operations.ending import fail_run
from runs.operations.length_check import WAITING
from runs.operations.resting import failure_words, has_rested_at, is_pausing, rest
from runs.operations.rollouts import keep_rollouts
from runs.operations.smaller_passes import OUT_OF_DEVICE_MEMORY, halved_execution, halved_warning
from runs.phases import LOST, PHASES
from runs.plan import reinforcement_body, supervised_body
from runs.reinforcement_plan import sampler_part, scorer_part, warm_start_part
from runs.snapshots import verify_snapshot

TRIED_AGAIN = frozenset({"unexpected", "snapshot_invalid", "job_not_started", "scorer_lost", "rollout_engine_lost"})
"""Failures that another attempt may not meet again; every other one would only repeat."""
FIGURES_AT_ONCE = 1000


class RunWork(OneByOne):
    """Training runs."""

    kind = queries.KIND

    def waiting(self, device: Device) -> QuerySet[Run]:
        measuring = Q(length_check__contains={"status": WAITING})
        waiting = Run.objects.filter(~measuring, phase="AWAITING_CAPACITY", cancel_requested_at=None,
                                     execution__deviceProfile=device.profile).order_by("queued_at")
        return waiting.exclude(pk__in=keeper().not_ready(self.kind))

    def get(self, pk: str) -> Run:
        return Run.objects.select_related("workload").get(pk=pk)

    def start(self, row: Run, attempt: Attempt) -> None:
        _move(row, "STARTING_JOB", lease_token=attempt.lease.token, num_attempts=attempt.number, stage={},
              data={"attempt": attempt.number})

    def plan(self, row: Run, attempt: Attempt) -> dict[str, Any]:
        """The job's plan, resuming from the newest snapshot whose files are all as they were committed."""
        resume = _choose_snapshot(row)
        attempt.resumed_step = resume["step"] if resume else None
        common = {"base_model": _base_model_part(row), "dataset": _rows_part(row, "dataset"), "config": row.config,
                  "execution": row.execution, "resume": resume, "start": _start_part(row),
                  "total_steps": row.total_steps if row.parent_id or row.smoke else None,
                  "pause_at": _pause_at(row), "is_first_attempt": attempt.number == 1,
                  "strict": bool(setting("trainer.jobs.strict-compute"))}
        if row.method in REINFORCEMENT:
            folder = attempt_folder(attempt.pk)
            return reinforcement_body(scorer=scorer_part(row, folder), sampler=sampler_part(row),
                                      failed_updates=int(setting("trainer.rollouts.failed-updates")),
                                      warm_start=warm_start_part(row, folder), **common)
        validation = _rows_part(row, "validationDataset") if row.references.get("validationDataset") else None
        return supervised_body(validation=validation, smoke=row.smoke, **common)

    def on_events(self, row: Run, attempt: Attempt, events: Sequence[dict[str, Any]]) -> None:
        """Figures that follow each other are stored at once: a job may have trained for long before it is read."""
        for type_, group in groupby(events, key=lambda event: event["type"]):
            if type_ == "metrics":
                _store_figures(row, attempt, list(group))
            else:
                super().on_events(row, attempt, list(group))

    def on_event(self, row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
        handle = HANDLERS.get(event["type"])
        if handle is not None:
            handle(row, attempt, event)

    def on_exit(self, row: Run, attempt: Attempt, ending: Ending) -> None:
        if row.phase not in PHASES.active:
            return
        _charge(row, attempt)
        events.record(self.kind, row.pk, "run.attempt_ended", actor=SYSTEM, data={
            "attempt": attempt.number, "outcome": ending.outcome, "code": row.failure_code,
            "exit": _exit_record(ending)})
        if ending.outcome == "finished":
            _move(row, "RECORDING", failure_code="", failure_reason="", failure_hint="", failure_evidence={})
        elif row.cancel_requested_at is not None:
            _move(row, "CLEANING_UP", reason="cancelled", failure_code="", failure_reason="", failure_hint="",
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

    def ask(self, row: Run) -> Ask:
        if row.cancel_requested_at is not None:
            return "stop"
        return pausing.ask_of(row)


def _move(row: Run, to: str, *, reason: str = "", data: dict[str, Any] | None = None, **columns: Any) -> None:
    move(row, to, phases=PHASES, actor=SYSTEM, reason=reason, data=data, **columns)


# The plan ------------------------------------------------------------------------------------------------------------


def _base_model_part(row: Run) -> dict[str, Any]:
    state = base_model_state(row.base_model)
    if state is None or state.folder is None or state.revision != row.base_revision:
        raise Unavailable(f"{row.base_model} at {row.base_revision} is not prepared on this box.",
                          hint=f"Select it with `./optimize base-models select {row.base_model}`.")
    return base_model_part(folder=str(state.folder), revision=state.revision, repository=row.base_model,
                           chat_template_sha256=state.chat_template_sha256,
                           rules=state.entry.rules if state.entry else ())


def _rows_part(row: Run, name: str) -> dict[str, Any]:
    reference = row.references[name]
    return dataset_part(queries.examples_of(reference), name=reference["reference"])


def _start_part(row: Run) -> dict[str, Any] | None:
    """The snapshot a branch starts from; every attempt is told, for its place in the data."""
    source = row.source_snapshot
    if source is None:
        return None
    return {"folder": str(queries.folder_of_snapshot(source)), "mode": row.restore_mode,
            "manifest_sha256": source.manifest_sha256, "state_manifest_sha256": source.state_manifest_sha256 or None}


def _pause_at(row: Run) -> int | None:
    """The update at which the plan pauses, until it has: a resumed run does not rest there again."""
    at = row.pause_at_step
    return None if at is None or has_rested_at(row, at) else at


def _choose_snapshot(row: Run) -> dict[str, Any] | None:
    """The newest snapshot that verifies; each one passed over is told, and the run may start from its base again."""
    for snapshot in queries.newest_restorable(row):
        folder = queries.folder_of_snapshot(snapshot)
        try:
            verify_snapshot(folder, snapshot)
        except SnapshotDamaged as damage:
            events.record(queries.KIND, row.pk, "run.snapshot_passed_over", actor=SYSTEM, reason=damage.detail,
                          data={"snapshotId": snapshot.pk, "step": snapshot.step})
            continue
        events.record(queries.KIND, row.pk, "run.resumed", actor=SYSTEM,
                      data={"snapshotId": snapshot.pk, "step": snapshot.step})
        return {"folder": str(folder), "step": snapshot.step, "manifest_sha256": snapshot.manifest_sha256,
                "state_manifest_sha256": snapshot.state_manifest_sha256}
    return None


# Events --------------------------------------------------------------------------------------------------------------


def _on_started(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    if row.phase == "STARTING_JOB":
        _move(row, "QUEUED")
    _keep(row, engine_runtime=begun(attempt.number, event), observed_step=attempt.resumed_step or 0, stage={},
          failure_code="", failure_reason="", failure_hint="",
          failure_evidence={})


def _on_stage(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    stage = {"name": event.get("name") or row.stage.get("name", ""), "done": event.get("done"),
             "total": event.get("total")}
    if row.phase in {"STARTING_JOB", "QUEUED"} and _shows_preparing(row, attempt):
        _move(row, "PREPARING", data={"stage": stage["name"]})
    _keep(row, stage=stage)


def _shows_preparing(row: Run, attempt: Attempt) -> bool:
    """A reinforcement run goes from QUEUED to TRAINING, its stage told beside; only what is resumed prepares."""
    return row.method not in REINFORCEMENT or attempt.number > 1


def _on_plan_size(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    _keep(row, total_steps=event["totalSteps"], summary=row.summary | {
        key: event[key] for key in ("rowsPerEpoch", "updatesPerEpoch", "sequences") if event.get(key) is not None})


def _on_metrics(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    _store_figures(row, attempt, [event])


def _store_figures(row: Run, attempt: Attempt, events: Sequence[dict[str, Any]]) -> None:
    """Figures of updates, in order; a later one of the same update takes the earlier one's place."""
    if row.phase in {"STARTING_JOB", "QUEUED", "PREPARING"}:
        _move(row, "TRAINING", stage={})
    rows = {event["step"]: Metric(run=row, step=event["step"], attempt=attempt.number, values=event["values"],
                                  at=_when(event)) for event in events}
    Metric.objects.bulk_create(rows.values(), update_conflicts=True, unique_fields=["run", "step"],
                               update_fields=["attempt", "values", "at"], batch_size=FIGURES_AT_ONCE)
    step = events[-1]["step"]
    _keep(row, observed_step=step, summary=row.summary | newest_figures([event["values"] for event in events]))
    first = attempt.first_step if attempt.first_step is not None else events[0]["step"]
    Attempt.objects.filter(pk=attempt.pk).update(first_step=first, last_step=step)
    attempt.first_step, attempt.last_step = first, step


def _on_rollouts(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    warning = keep_rollouts(row, attempt, event)
    if warning is not None:
        _on_warning(row, attempt, warning)


def _on_validation(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    """A validation stands beside the training figures of its step; before the first step it has a row of its own."""
    reading = {"validation_loss": event["loss"], "validation_perplexity": event["perplexity"]}
    metric, is_new = Metric.objects.get_or_create(run=row, step=event["step"], defaults={
        "attempt": attempt.number, "values": reading, "at": _when(event)})
    if not is_new:
        Metric.objects.filter(pk=metric.pk).update(values=metric.values | reading)
    _keep(row, summary=row.summary | {"validation": {
        "step": event["step"], "loss": event["loss"], "perplexity": event["perplexity"]}})


def _on_snapshot(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    columns = {"folder": event["folder"], "has_weights": event["weights"], "has_training_state": event["trainingState"],
               "manifest_sha256": event["manifestSha256"],
               "state_manifest_sha256": event.get("stateManifestSha256") or "", "epoch": event.get("epoch"),
               "size_bytes": event["bytes"], "is_final": event["final"]}
    snapshot, _ = Snapshot.objects.update_or_create(run=row, attempt=attempt.number, step=event["step"],
                                                    defaults=columns)
    if event["trainingState"]:
        _keep(row, saved_step=event["step"])
    events.record(queries.KIND, row.pk, "run.snapshot", actor=SYSTEM, data={
        "snapshotId": snapshot.pk, "step": event["step"], "final": event["final"]})


def _on_saves(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    _keep(row, saves_waiting=event["waiting"], saves_skipped=event["skipped"])


def _on_check(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    names = ("name", "passed", "value", "bound", "seconds", "detail")
    check = {name: event.get(name) for name in names}
    _keep(row, checks=[*[known for known in row.checks if known["name"] != check["name"]], check])


def _on_warning(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    warning = {"code": event["code"], "message": event["message"]}
    if warning not in row.warnings:
        _keep(row, warnings=[*row.warnings, warning])
        events.record(queries.KIND, row.pk, "run.warning", actor=SYSTEM, data=warning)


def _on_failure(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    _keep(row, failure_code=event["code"][:40], failure_reason=event["reason"], failure_hint=event.get("hint", ""),
          failure_evidence=event.get("evidence") or {})


def _on_hparams(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    _keep(row, hparams={"values": event["values"], "sha": event["sha"]})


def _on_engine_config(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    _keep(row, engine_config={"requested": event["requested"], "resolved": event["resolved"]})


def _on_engine_runtime(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    _keep(row, engine_runtime=with_parts(row.engine_runtime, attempt.number, event))


def _on_data_fit(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    _keep(row, data_fit={key: value for key, value in event.items() if key not in {"v", "t", "type"}})


def _on_missed(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    smoke.record_missed(row, attempt.number, event)


def _on_smoke(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    _keep(row, **smoke.verdict_columns(row, attempt.number, event))
    events.record(queries.KIND, row.pk, "run.smoke_judged", actor=SYSTEM, data={
        name: event[name] for name in ("verdict", "score", "scored", "reproduced")})


HANDLERS = {
    "started": _on_started, "stage": _on_stage, "progress": _on_stage, "plan_size": _on_plan_size,
    "metrics": _on_metrics, "rollouts": _on_rollouts, "validation": _on_validation, "snapshot": _on_snapshot,
    "saves": _on_saves,
    "check": _on_check, "warning": _on_warning, "failure": _on_failure, "hparams": _on_hparams,
    "engine_config": _on_engine_config, "engine_runtime": _on_engine_runtime, "data_fit": _on_data_fit,
    "missed": _on_missed, "smoke": _on_smoke,
}


def _keep(row: Run, **columns: Any) -> None:
    """Store columns that no phase move carries, and let `row` show them to the next event."""
    Run.objects.filter(pk=row.pk).update(**columns)
    for name, value in columns.items():
        setattr(row, name, value)


def _when(event: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(event["t"], UTC) if event.get("t") else clock.now()


# Endings -------------------------------------------------------------------------------------------------------------


def _charge(row: Run, attempt: Attempt) -> None:
    ended = attempt.ended_at or clock.now()
    seconds = max(0.0, (ended - attempt.started_at).total_seconds())
    _keep(row, device_seconds=row.device_seconds + seconds * row.execution["gpus"])


def _settle_failure(row: Run, attempt: Attempt, ending: Ending) -> None:
    """A failure that may pass is tried once more; the same one twice in a row, or one that would repeat, is the end."""
    smaller = halved_execution(row) if row.failure_code == OUT_OF_DEVICE_MEMORY else None
    if smaller is not None:
        _keep(row, execution=smaller, warnings=[*row.warnings, halved_warning(smaller)])
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
    _keep(row, warnings=[*row.warnings, {"code": STALLED, "message": f"{reason}, in attempt {attempt.number}. {hint}"}])
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
        _move(row, "PAUSING", reason="The job ended where it was to pause.")
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
        _move(row, "PAUSING", reason=reason)
    _move(row, LOST, reason=reason, stage={})
    doorbell.ring_devices()


KINDS = (RunWork(),)
