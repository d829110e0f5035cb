"""Runs as the API shows them: the documents that programs, commands and pages read."""

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from optimize_site.kernel.models import Attempt
from runs import queries
from runs.compared_figures import last_figure
from runs.descriptor import Config, Execution
from runs.models import Candidate, Metric, MissedRow, Run, Snapshot
from runs.operations import Submission
from runs.outlook import Outlook, outlook_of, outlooks
from runs.resolve import in_order
from runs.rollouts.queries import figures_of as rollout_figures
from runs.rollouts.queries import trains_on_rewards
from runs.snapshots import digest_of, kinds_of
from runs.storage import storage_of

NAMED = {"loss": "loss", "validation_loss": "validationLoss", "validation_perplexity": "perplexity",
         "learning_rate": "learningRate", "grad_norm": "gradNorm", "tokens_per_second": "tokensPerSecond",
         "step_seconds": "stepSeconds", "preference_accuracy": "preferenceAccuracy", "reward_margin": "rewardMargin",
         "reward_chosen": "rewardChosen", "reward_rejected": "rewardRejected", "reward": "reward",
         "zero_variance_groups": "zeroVarianceGroups", "scored_zero": "scoredZero", "scored_full": "scoredFull",
         "scored_reward_mean": "scoredRewardMean", "kl": "kl"}
"""Figures with names of their own in the API; the rest of what the loop logged stands under `measured`."""
MEAN_SHARE = re.compile(r"term\.(.+)\.mean")


def run_rows(runs: Collection[Run]) -> list[dict[str, Any]]:
    """The runs of a list."""
    ahead = outlooks(runs)
    return [run_row(run, ahead[run.pk]) for run in runs]


def run_row(run: Run, outlook: Outlook) -> dict[str, Any]:
    """A run in a list."""
    dataset = run.references.get("dataset") or {}
    return {
        "runId": run.pk, "phase": run.phase, "workload": run.workload.name,
        "isArchived": run.workload.archived_at is not None, "method": run.method, "baseModel": run.base_model,
        "dataset": dataset.get("reference"), "configHash": run.config_hash, "configName": run.config_name,
        "description": run.description, "progress": progress_document(run, outlook),
        "observedStep": run.observed_step, "savedStep": run.saved_step, "lastLoss": run.summary.get("lastLoss"),
        "lastFigure": last_figure(run), "modelId": run.model_id,
        "model": run.model.reference if run.model else None, "failureCode": run.failure_code or None,
        "failureReason": _failure(run), "isCancelling": _is_cancelling(run), "createdBy": run.created_by,
        "createdAt": run.created_at, "endedAt": run.ended_at, "smoke": run.smoke,
    }


def run_document(run: Run) -> dict[str, Any]:
    """The whole record."""
    return run_row(run, outlook_of(run)) | {
        "workloadId": run.workload_id, "baseModelRevision": run.base_revision or None,
        "config": in_order(run.config, Config), "execution": in_order(run.execution, Execution), "stated": run.stated,
        "references": run.references, "grader": run.grader or None,
        "warnings": run.warnings, "submissionId": run.submission_id or None,
        "timing": {"phaseMillis": queries.phase_millis(run), "phaseSince": run.phase_since},
        "cost": queries.cost_of(run), "loss": queries.loss_summary(run), "validation": run.summary.get("validation"),
        "preference": queries.preference_summary(run),
        "tokensPerSecond": queries.mean_throughput(run), "dataFit": run.data_fit, "checks": run.checks,
        "lengthCheck": run.length_check or None,
        "memory": {"predicted": run.predicted_memory, "measured": queries.measured_memory(run)},
        "failureHint": run.failure_hint or None, "failureEvidence": run.failure_evidence or None,
        "parentRunId": run.parent_id, "restore": _restore(run), "sweepPoint": run.sweep_point,
        "pause": run.pause, "pauseAtStep": run.pause_at_step, "savesWaiting": run.saves_waiting,
        "savesSkipped": run.saves_skipped, "storedBytes": storage_of(run),
        "attempts": [attempt_document(attempt) for attempt in queries.attempts_of(run)],
    }


def status_document(run: Run) -> dict[str, Any]:
    """What a follower watches."""
    return {
        "runId": run.pk, "phase": run.phase, "progress": progress_document(run, outlook_of(run)),
        "observedStep": run.observed_step, "savedStep": run.saved_step, "lastLoss": run.summary.get("lastLoss"),
        "lastFigure": last_figure(run), "validation": run.summary.get("validation"), "modelId": run.model_id,
        "model": run.model.reference if run.model else None, "failureCode": run.failure_code or None,
        "failureReason": _failure(run), "failureHint": run.failure_hint or None, "isCancelling": _is_cancelling(run),
        "pause": run.pause, "endedAt": run.ended_at, "smoke": run.smoke,
    }


def progress_document(run: Run, outlook: Outlook) -> dict[str, Any]:
    """How far a run is: updates done of all, the stage while it prepares, what it waits for, the time that is left."""
    share = min(1.0, run.observed_step / run.total_steps) if run.total_steps else None
    eta = outlook.eta_seconds
    return {"step": run.observed_step, "totalSteps": run.total_steps,
            "share": round(share, 4) if share is not None else None, "stage": run.stage or None,
            "waitReason": outlook.wait_reason or None, "etaSeconds": round(eta, 1) if eta is not None else None}


def submission_document(submission: Submission) -> dict[str, Any]:
    """The answer to a start."""
    run = submission.run
    return {"runId": run.pk, "phase": run.phase, "configHash": run.config_hash, "isNew": submission.is_new,
            "warnings": run.warnings,
            "previousRuns": queries.previous_runs(run.config_hash, run.base_model, apart_from=run.pk)}


def smoke_document(run: Run) -> dict[str, Any]:
    """A smoke check and its verdict."""
    return {"runId": run.pk, "phase": run.phase, "smoke": run.smoke}


def missed_document(row: MissedRow) -> dict[str, Any]:
    """A row that a smoke check's model did not reproduce."""
    return {"position": row.position, "prompt": row.prompt, "expected": row.expected, "answer": row.answer,
            "finish": row.finish}


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    """One try at a run."""
    return {"number": attempt.number, "attemptId": attempt.pk, "device": attempt.lease.device_id,
            "slot": attempt.lease.slot, "startedAt": attempt.started_at, "endedAt": attempt.ended_at,
            "outcome": attempt.outcome or None, "resumedStep": attempt.resumed_step, "firstStep": attempt.first_step,
            "lastStep": attempt.last_step, "exit": attempt.exit or None}


def metric_documents(run: Run, metrics: Collection[Metric]) -> list[dict[str, Any]]:
    """The figures of a run's updates, with what its kept rollouts come to where it has some."""
    is_rewarded = trains_on_rewards(run)
    first = min((row.step for row in metrics), default=0)
    kept = rollout_figures(run, after=first - 1) if is_rewarded else {}
    return [metric_document(row, kept.get(row.step, {})) | (
        {"rewardTerms": reward_terms(row.values)} if is_rewarded else {}) for row in metrics]


def metric_document(metric: Metric, kept: Mapping[str, float] = MappingProxyType({})) -> dict[str, Any]:
    """The figures of one update; named ones at the top, whatever else was logged under `measured`."""
    values = {**metric.values, **kept}
    named = {ours: values[theirs] for theirs, ours in NAMED.items() if values.get(theirs) is not None}
    measured = {name: value for name, value in values.items() if name not in NAMED and not MEAN_SHARE.fullmatch(name)}
    peak = values.get("peak_memory_bytes")
    memory = {"maxMemoryGb": round(peak / 2**30, 3)} if isinstance(peak, int | float) else {}
    return {"step": metric.step, "attempt": metric.attempt, "at": metric.at} | named | memory | {"measured": measured}


def reward_terms(values: Mapping[str, Any]) -> dict[str, Any]:
    """The mean share of each term in an update's reward, and their `total`."""
    shares = {found[1]: value for name, value in values.items() if (found := MEAN_SHARE.fullmatch(name))}
    return {"total": values.get("reward")} | shares


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """A committed save in a list."""
    return {"snapshotId": snapshot.pk, "runId": snapshot.run_id, "step": snapshot.step, "attempt": snapshot.attempt,
            "epoch": snapshot.epoch, "artifacts": kinds_of(snapshot), "swept": snapshot.swept,
            "sizeBytes": snapshot.size_bytes, "manifestDigest": snapshot.manifest_sha256, "isFinal": snapshot.is_final,
            "status": "Removed" if snapshot.removed_at else "Available", "heldBy": holders_of(snapshot),
            "createdAt": snapshot.created_at}


def snapshot_record(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot whole: where it comes from, and each kind with the digest of its manifest."""
    run = snapshot.run
    engine = (run.engine_config or {}).get("resolved") or {}
    return snapshot_document(snapshot) | {
        "workload": run.workload.name, "baseModel": run.base_model, "baseModelRevision": run.base_revision,
        "artifacts": [{"kind": kind, "manifestDigest": digest_of(snapshot, kind)} for kind in kinds_of(snapshot)],
        "engine": engine.get("engine") or run.execution["engine"], "architecture": engine.get("architecture"),
        "configHash": run.config_hash, "pinned": snapshot.pinned}


def holders_of(snapshot: Snapshot) -> list[dict[str, str]]:
    """Who keeps the snapshot from being removed; a pin is shown as retention's."""
    pins = [{"kind": kind, "holder": "retention", "holderId": ""} for kind in snapshot.pinned]
    return pins + [{"kind": hold.kind, "holder": hold.holder_kind, "holderId": hold.holder_id}
                   for hold in snapshot.holds.all()]


def candidate_document(candidate: Candidate) -> dict[str, Any]:
    """How the registration of a snapshot stands; there is no model before it is REGISTERED."""
    version = candidate.version
    return {"modelId": candidate.pk, "snapshotId": candidate.snapshot_id, "phase": candidate.phase,
            "failureReason": candidate.reason or None, "model": version.reference if version else None,
            "createdBy": candidate.created_by, "createdAt": candidate.created_at}


def _restore(run: Run) -> dict[str, Any] | None:
    """Where a branch starts and how it was restored, with the reason."""
    source = run.source_snapshot
    return {"mode": run.restore_mode, "reason": run.restore_reason, "snapshotId": source.pk,
            "step": source.step} if source else None


def _failure(run: Run) -> str | None:
    """Why it failed; a retried attempt's reason is not the run's."""
    return run.failure_reason if run.failure_reason and run.phase in {"FAILED", "CLEANING_UP"} else None


def _is_cancelling(run: Run) -> bool:
    return run.cancel_requested_at is not None and run.ended_at is None
