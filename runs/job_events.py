"""What a run's job says, as its phase, its figures and its saves."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from optimize_site.kernel import clock
from optimize_site.kernel import events as bell
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.models import Attempt
from runs import queries
from runs.compared_figures import newest_figures
from runs.descriptor import REINFORCEMENT
from runs.engine_runtime import begun, with_parts
from runs.job_row import keep, move_on
from runs.models import Metric, Run, Snapshot
from runs.operations import smoke
from runs.operations.rollouts import keep_rollouts

FIGURES_AT_ONCE = 1000


def store_events(row: Run, attempt: Attempt, events: Sequence[dict[str, Any]]) -> None:
    """Store what the job said, in order. Figures that follow each other are stored at once: a job may have trained for
    long before it is read."""
    for type_, group in groupby(events, key=lambda event: event["type"]):
        if type_ == "metrics":
            _store_figures(row, attempt, list(group))
        elif (handle := HANDLERS.get(type_)) is not None:
            for event in group:
                handle(row, attempt, event)


def _on_started(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    if row.phase == "STARTING_JOB":
        move_on(row, "QUEUED")
    keep(row, engine_runtime=begun(attempt.number, event), observed_step=attempt.resumed_step or 0, stage={},
         failure_code="", failure_reason="", failure_hint="", failure_evidence={})


def _on_stage(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    stage = {"name": event.get("name") or row.stage.get("name", ""), "done": event.get("done"),
             "total": event.get("total")}
    if row.phase in {"STARTING_JOB", "QUEUED"} and _shows_preparing(row, attempt):
        move_on(row, "PREPARING", data={"stage": stage["name"]})
    keep(row, stage=stage)


def _shows_preparing(row: Run, attempt: Attempt) -> bool:
    """A reinforcement run goes from QUEUED to TRAINING, its stage told beside; only what is resumed prepares."""
    return row.method not in REINFORCEMENT or attempt.number > 1


def _on_plan_size(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    keep(row, total_steps=event["totalSteps"], summary=row.summary | {
        key: event[key] for key in ("rowsPerEpoch", "updatesPerEpoch", "sequences") if event.get(key) is not None})


def _store_figures(row: Run, attempt: Attempt, events: Sequence[dict[str, Any]]) -> None:
    """Figures of updates, in order; a later one of the same update takes the earlier one's place."""
    if row.phase in {"STARTING_JOB", "QUEUED", "PREPARING"}:
        move_on(row, "TRAINING", stage={})
    rows = {event["step"]: Metric(run=row, step=event["step"], attempt=attempt.number, values=event["values"],
                                  at=_when(event)) for event in events}
    Metric.objects.bulk_create(rows.values(), update_conflicts=True, unique_fields=["run", "step"],
                               update_fields=["attempt", "values", "at"], batch_size=FIGURES_AT_ONCE)
    step = events[-1]["step"]
    keep(row, observed_step=step, summary=row.summary | newest_figures([event["values"] for event in events]))
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
    keep(row, summary=row.summary | {"validation": {
        "step": event["step"], "loss": event["loss"], "perplexity": event["perplexity"]}})


def _on_snapshot(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    columns = {"folder": event["folder"], "has_weights": event["weights"], "has_training_state": event["trainingState"],
               "manifest_sha256": event["manifestSha256"],
               "state_manifest_sha256": event.get("stateManifestSha256") or "", "epoch": event.get("epoch"),
               "size_bytes": event["bytes"], "is_final": event["final"]}
    snapshot, _ = Snapshot.objects.update_or_create(run=row, attempt=attempt.number, step=event["step"],
                                                    defaults=columns)
    if event["trainingState"]:
        keep(row, saved_step=event["step"])
    bell.record(queries.KIND, row.pk, "run.snapshot", actor=SYSTEM, data={
        "snapshotId": snapshot.pk, "step": event["step"], "final": event["final"]})


def _on_saves(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    keep(row, saves_waiting=event["waiting"], saves_skipped=event["skipped"])


def _on_check(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    names = ("name", "passed", "value", "bound", "seconds", "detail")
    check = {name: event.get(name) for name in names}
    keep(row, checks=[*[known for known in row.checks if known["name"] != check["name"]], check])


def _on_warning(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    warning = {"code": event["code"], "message": event["message"]}
    if warning not in row.warnings:
        keep(row, warnings=[*row.warnings, warning])
        bell.record(queries.KIND, row.pk, "run.warning", actor=SYSTEM, data=warning)


def _on_failure(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    keep(row, failure_code=event["code"][:40], failure_reason=event["reason"], failure_hint=event.get("hint", ""),
         failure_evidence=event.get("evidence") or {})


def _on_hparams(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    keep(row, hparams={"values": event["values"], "sha": event["sha"]})


def _on_engine_config(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    keep(row, engine_config={"requested": event["requested"], "resolved": event["resolved"]})


def _on_engine_runtime(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    keep(row, engine_runtime=with_parts(row.engine_runtime, attempt.number, event))


def _on_data_fit(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    keep(row, data_fit={key: value for key, value in event.items() if key not in {"v", "t", "type"}})


def _on_missed(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    smoke.record_missed(row, attempt.number, event)


def _on_smoke(row: Run, attempt: Attempt, event: dict[str, Any]) -> None:
    keep(row, **smoke.verdict_columns(row, attempt.number, event))
    bell.record(queries.KIND, row.pk, "run.smoke_judged", actor=SYSTEM, data={
        name: event[name] for name in ("verdict", "score", "scored", "reproduced")})


HANDLERS = {
    "started": _on_started, "stage": _on_stage, "progress": _on_stage, "plan_size": _on_plan_size,
    "rollouts": _on_rollouts, "validation": _on_validation, "snapshot": _on_snapshot, "saves": _on_saves,
    "check": _on_check, "warning": _on_warning, "failure": _on_failure, "hparams": _on_hparams,
    "engine_config": _on_engine_config, "engine_runtime": _on_engine_runtime, "data_fit": _on_data_fit,
    "missed": _on_missed, "smoke": _on_smoke,
}


def _when(event: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(event["t"], UTC) if event.get("t") else clock.now()
