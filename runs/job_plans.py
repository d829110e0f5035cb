"""What the job of a run's attempt is told: its rows, its base model, the save that it goes on from."""

from typing import Any

from datasets.plan import dataset_part
from optimize_site.kernel import events
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import Unavailable
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.plan_parts import base_model_part
from optimize_site.kernel.work import attempt_folder
from registry.base_model_queries import base_model_state
from runs import queries
from runs.descriptor import REINFORCEMENT
from runs.errors import SnapshotDamaged
from runs.models import Run
from runs.operations.resting import has_rested_at
from runs.plan import reinforcement_body, supervised_body
from runs.reinforcement_plan import sampler_part, scorer_part, warm_start_part
from runs.snapshots import verify_snapshot


def plan_of(row: Run, attempt: Attempt) -> dict[str, Any]:
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
