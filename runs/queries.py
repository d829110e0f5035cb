"""Reads of runs: finding and listing them, their figures, what they wait for, earlier runs of a recipe."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db.models import Avg, F, FloatField, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from datasets.models import ExampleSet
from datasets.queries import example_set
from optimize_site.kernel import clock
from optimize_site.kernel.catalog import load_catalog
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import InvalidInput, NotFound
from optimize_site.kernel.ids import find_by_prefix
from optimize_site.kernel.models import Attempt, Event
from optimize_site.kernel.scores import best_scores_of_models
from optimize_site.kernel.work import attempt_folder
from registry.models import Version
from registry.workload_queries import get_workload
from runs.models import Candidate, Metric, MissedRow, Run, Snapshot
from runs.phases import PHASES

MEMORY_PARTS = ("weights", "adapter", "gradients", "optimizer", "activations", "rest", "allocator", "driver")
"""What a job tells its peak to be made of, in the order in which it is shown."""

KIND = "run"
PREVIOUS_RUNS = 20
LOG_BYTES = 256 * 1024


def get_run(text: str) -> Run:
    """The run whose ID is, or begins with, `text`. Raises NotFound, AmbiguousPrefix."""
    return find_by_prefix(all_runs(), text.strip().lower(), noun="run")


def all_runs() -> QuerySet[Run]:
    """Every run with what showing it needs."""
    return Run.objects.select_related("workload", "model__artifact")


def examples_of(reference: Mapping[str, Any]) -> ExampleSet:
    """The examples that a run refers to, in the files of the version it names."""
    return example_set(Version.objects.get(pk=reference["versionId"]))


def list_runs(*, phase: str = "", workload: str = "", archived: bool = False) -> QuerySet[Run]:
    """Runs, newest first: of one phase or all `open` ones, of one workload. Raises NotFound, InvalidInput."""
    runs = all_runs().order_by("-created_at", "pk")
    if workload:
        runs = runs.filter(workload=get_workload(workload))
    elif not archived:
        runs = runs.filter(workload__archived_at=None)
    return runs.filter(phase__in=_phases_of(phase)) if phase else runs


def _phases_of(text: str) -> list[str]:
    wanted = text.strip().upper().replace("-", "_")
    if wanted == "OPEN":
        return sorted(PHASES.open)
    if wanted not in PHASES.next:
        raise InvalidInput(f"{text!r} is no phase of a run.", code="unknown_phase",
                           hint=f"open, or one of {', '.join(PHASES.next)}.")
    return [wanted]


def open_runs() -> QuerySet[Run]:
    """Runs that have not ended, oldest first."""
    return all_runs().filter(phase__in=PHASES.open).order_by("created_at")


def previous_runs(config_hash: str, base_model: str, *, apart_from: str = "") -> list[dict[str, Any]]:
    """Earlier runs of a recipe, newest first, with the scores of their models."""
    runs = list(all_runs().filter(config_hash=config_hash, base_model=base_model, smoke__isnull=True)
                .exclude(pk=apart_from)
                .order_by("-created_at")[:PREVIOUS_RUNS])
    scores = best_scores_of_models(run.model_id for run in runs if run.model_id)
    return [{"runId": run.pk, "phase": run.phase, "configName": run.config_name, "createdAt": run.created_at,
             "baseModelRevision": run.base_revision, "modelId": run.model_id,
             "model": run.model.reference if run.model else None, "score": scores.get(run.model_id or "")}
            for run in runs]


def attempts_of(run: Run) -> QuerySet[Attempt]:
    """The run's attempts, oldest first."""
    return Attempt.objects.filter(holder_kind=KIND, holder_id=run.pk).select_related("lease").order_by("number")


def events_of(run: Run, *, after: int = 0) -> QuerySet[Event]:
    """What happened to the run since event `after`, in order."""
    return Event.objects.filter(subject_kind=KIND, subject_id=run.pk, id__gt=after).order_by("id")


def snapshots_of(run: Run) -> QuerySet[Snapshot]:
    """The run's committed snapshots, newest first."""
    return run.snapshots.select_related("candidate").prefetch_related("holds").order_by("-step", "-attempt")


def get_snapshot(text: str, *, run: Run | None = None) -> Snapshot:
    """The snapshot, of a run where it is named, whose ID is or begins with `text`. Raises NotFound, AmbiguousPrefix."""
    found = Snapshot.objects.select_related("run__workload").prefetch_related("holds")
    found = found.filter(run=run) if run is not None else found
    return find_by_prefix(found, text.strip().lower(), noun="snapshot")


def missed_of(run: Run) -> QuerySet[MissedRow]:
    """The rows that a smoke check's model did not reproduce, in their order. Raises NotFound for any other run."""
    if run.smoke is None:
        raise NotFound(f"The run {run.pk[:12]} is no smoke check.", code="no_smoke_check",
                       hint="Add smoke to its descriptor to run one.")
    return run.missed.order_by("position")


def metrics_of(run: Run, *, limit: int | None = None, from_step: int = 0) -> list[Metric]:
    """The run's steps from `from_step` on in order: all, or the `limit` most recent."""
    rows = run.metrics.filter(step__gte=from_step).order_by("-step")
    return list(reversed(rows[:limit] if limit else rows))


def loss_summary(run: Run) -> dict[str, float] | None:
    """First, last and mean training loss; None before the first step."""
    losses = run.metrics.filter(values__loss__isnull=False).exclude(values__loss=None)
    first, last = losses.order_by("step").first(), losses.order_by("step").last()
    if first is None or last is None:
        return None
    return {"first": first.values["loss"], "last": last.values["loss"], "mean": _mean(run, "loss") or 0.0}


def preference_summary(run: Run) -> dict[str, Any] | None:
    """The accuracy and margin of the newest update of a preference run, and the loss it trains with; None for others.

    The accuracy is the share of the update's pairs whose chosen answer has the higher reward, the margin by how much.
    """
    if run.method != "dpo":
        return None
    newest = run.metrics.filter(values__has_key="reward_margin").order_by("step").last()
    values = newest.values if newest else {}
    loss = ((run.engine_config or {}).get("resolved") or {}).get("preferenceLoss")
    return {"step": newest.step if newest else None, "accuracy": values.get("preference_accuracy"),
            "margin": values.get("reward_margin"), "loss": loss}


def measured_memory(run: Run) -> dict[str, Any] | None:
    """The highest peak that an update reported, at which, and its parts where it told them; None before any did."""
    peak = Cast(KeyTextTransform("peak_memory_bytes", "values"), FloatField())
    metric = run.metrics.annotate(peak=peak).exclude(peak=None).order_by("-peak", "step").first()
    if metric is None:
        return None
    parts = {part: metric.values[f"memory_{part}_bytes"] for part in MEMORY_PARTS
             if f"memory_{part}_bytes" in metric.values}
    return {"bytes": sum(parts.values()) or int(metric.values["peak_memory_bytes"]), "step": metric.step,
            "parts": parts}


def mean_throughput(run: Run) -> float | None:
    """Tokens a second, the mean over the steps that reported it."""
    return _mean(run, "tokens_per_second")


def _mean(run: Run, name: str) -> float | None:
    figure = Cast(KeyTextTransform(name, "values"), FloatField())
    found: float | None = run.metrics.aggregate(mean=Avg(figure))["mean"]
    return found


def phase_millis(run: Run, now: datetime | None = None) -> dict[str, int]:
    """Milliseconds spent in each phase, the present one counted up to now."""
    spent = dict(run.phase_millis)
    if run.phase in PHASES.open:
        running = ((now or clock.now()) - run.phase_since).total_seconds() * 1000
        spent[run.phase] = spent.get(run.phase, 0) + max(0, int(running))
    return spent


def device_seconds(run: Run, now: datetime | None = None) -> tuple[float, bool]:
    """Device seconds consumed, and whether a running job makes it an estimate."""
    if run.phase not in PHASES.active:
        return run.device_seconds, False
    running = attempts_of(run).filter(ended_at=None).last()
    since = ((now or clock.now()) - running.started_at).total_seconds() if running else 0.0
    return run.device_seconds + max(0.0, since) * run.execution["gpus"], True


def cost_of(run: Run) -> dict[str, Any]:
    """Device seconds times the rate that the catalog states for the profile, else the box's."""
    seconds, is_estimate = device_seconds(run)
    rate = rate_per_device_hour(run.execution["deviceProfile"])
    return {"deviceSeconds": round(seconds, 1), "isEstimate": is_estimate, "ratePerDeviceHour": rate,
            "amount": round(seconds / 3600 * rate, 4)}


def rate_per_device_hour(profile: str) -> float:
    """What an hour of such a device costs: as the catalog states it, else the box; 0 where neither does."""
    known = load_catalog().devices.get(profile)
    stated = known.rate_per_device_hour if known else None
    return float(setting("trainer.cost.rate-per-device-hour") if stated is None else stated)


def newest_restorable(run: Run) -> QuerySet[Snapshot]:
    """Snapshots that a new attempt could resume from, newest first."""
    whole = run.snapshots.filter(has_weights=True, has_training_state=True, removed_at=None)
    return whole.exclude(swept__contains=["trainingState"]).exclude(swept__contains=["weights"]).order_by(
        "-step", "-attempt")


def newest_branchable(run: Run) -> Snapshot | None:
    """The newest snapshot that still holds weights, which a branch or a model can be made of."""
    return run.snapshots.filter(has_weights=True, removed_at=None).exclude(swept__contains=["weights"]).order_by(
        "-step", "-attempt").first()


def folder_of_snapshot(snapshot: Snapshot) -> Path:
    """Where a snapshot lies: inside the folder of the attempt that wrote it."""
    attempt = Attempt.objects.get(holder_kind=KIND, holder_id=snapshot.run_id, number=snapshot.attempt)
    return attempt_folder(attempt.pk) / snapshot.folder


def log_tail(run: Run, *, stream: str = "stderr", lines: int = 200, attempt: int | None = None) -> dict[str, Any]:
    """The last lines that a run's job wrote; of the newest attempt, or the one of that number."""
    if stream not in {"stdout", "stderr"}:
        raise InvalidInput(f"stream is {stream!r}; it must be stdout or stderr.", code="unknown_stream")
    attempts = attempts_of(run)
    found = attempts.filter(number=attempt).first() if attempt is not None else attempts.last()
    text = _last_lines(attempt_folder(found.pk) / f"{stream}.log", lines) if found else []
    return {"runId": run.pk, "attempt": found.number if found else None, "stream": stream, "lines": text}


def _last_lines(path: Path, count: int) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_BYTES))
            found = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return found[-max(1, count):]


def claims_of_runs(workload: str) -> list[dict[str, Any]]:
    """Runs that hold or wait for a device, as `capacity` lists claims."""
    runs = all_runs().filter(phase__in=[*PHASES.active, "AWAITING_CAPACITY"]).order_by(
        F("queued_at").asc(nulls_last=True))
    if workload:
        runs = runs.filter(Q(workload__name=workload) | Q(workload__id__startswith=workload))
    return [{"kind": run.method.upper(), "for": run.config_name or run.base_model, "workId": run.pk,
             "workload": run.workload.name, "devices": run.execution["gpus"], "pool": run.execution["deviceProfile"],
             "state": "GRANTED" if run.phase in PHASES.active else "QUEUED", "since": run.phase_since} for run in runs]


def candidates_of(run: Run) -> QuerySet[Candidate]:
    """The saves of a run that became models, in the order of their updates."""
    return (Candidate.objects.filter(snapshot__run=run, phase=Candidate.REGISTERED)
            .select_related("snapshot", "version__artifact").order_by("snapshot__step"))
