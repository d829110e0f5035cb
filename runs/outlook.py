"""Why runs wait and how long the rest takes, for many runs at once: the number of queries does not grow with them."""

import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F
from django.db.models.fields.json import KeyTextTransform

from optimize_site.kernel.ids import SHOWN
from optimize_site.kernel.models import Device, Lease
from optimize_site.kernel.services import list_services
from registry.base_model_queries import list_base_models
from runs.models import Metric, Run
from runs.phases import PHASES

RECENT_STEPS = 20
QUEUED = "AWAITING_CAPACITY"


@dataclass(frozen=True)
class Outlook:
    """What is ahead of a run: why it waits, as a sentence or empty, and the seconds that its updates still take."""

    wait_reason: str = ""
    eta_seconds: float | None = None


def outlook_of(run: Run) -> Outlook:
    """What is ahead of one run."""
    return outlooks([run])[run.pk]


def outlooks(runs: Collection[Run]) -> dict[str, Outlook]:
    """What is ahead of each of these runs, by its ID."""
    reasons, etas = _wait_reasons(runs), _etas(runs)
    return {run.pk: Outlook(reasons.get(run.pk, ""), etas.get(run.pk)) for run in runs}


def _wait_reasons(runs: Iterable[Run]) -> dict[str, str]:
    open_ones = [run for run in runs if run.phase in PHASES.open]
    reasons = {run.pk: run.wait_reason for run in open_ones}
    reasons |= _for_base_models([run for run in open_ones
                                 if run.phase == "AWAITING_BASE_MODEL" and not run.wait_reason])
    measured = {run.pk: run.length_check["note"] for run in open_ones
                if run.phase == QUEUED and run.length_check.get("status") == "waiting"}
    reasons |= _for_devices([run for run in open_ones if run.phase == QUEUED and run.pk not in measured])
    return reasons | {pk: f"Its rows are being measured. {note}".strip() for pk, note in measured.items()}


def _for_base_models(runs: Collection[Run]) -> dict[str, str]:
    """Nothing for a base model that is ready: such a run goes on in a moment."""
    if not runs:
        return {}
    ready = {state.repository for state in list_base_models() if state.is_ready}
    return {run.pk: "" if run.base_model in ready else f"{run.base_model} is being prepared." for run in runs}


def _for_devices(runs: Collection[Run]) -> dict[str, str]:
    if not runs:
        return {}
    slots, held, queues, silent = _slots(), _held(), _queues(), _silent()
    return {run.pk: silent.get(run.execution["deviceProfile"]) or _for_device(run, slots, held, queues)
            for run in runs}


def _silent() -> Mapping[str, str]:
    """For each profile of which no device's worker runs, that it does not and what the supervisor says of it."""
    workers = {service["name"]: service for service in list_services()}
    reasons: dict[str, str] = {}
    for device in Device.objects.for_models().filter(is_present=True).order_by("-index"):
        worker = workers.get(f"device/{device.uuid}")
        if worker is None or worker["state"] == "ready":
            reasons[device.profile] = ""
        else:
            reasons.setdefault(device.profile, _silence(worker))
    return reasons


def _silence(worker: Mapping[str, str]) -> str:
    last = f" {worker['lastError']}" if worker.get("lastError") else ""
    return f"The device's worker cannot be reached while this run waits for its devices: {worker['name']} is " \
        f"{worker['state']}.{last}"


def _slots() -> Mapping[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for device in Device.objects.for_models().filter(is_present=True):
        counts[device.profile] += device.slots
    return counts


def _held() -> Mapping[str, list[Lease]]:
    found: dict[str, list[Lease]] = defaultdict(list)
    for lease in Lease.objects.filter(released_at=None, device__is_present=True).select_related("device"):
        found[lease.device.profile].append(lease)
    return found


def _queues() -> Mapping[str, list[datetime]]:
    """When the waiting runs of each profile joined its line, first come first."""
    found: dict[str, list[datetime]] = defaultdict(list)
    waiting = Run.objects.filter(phase=QUEUED).exclude(queued_at=None).order_by("queued_at")
    for profile, at in waiting.values_list(KeyTextTransform("deviceProfile", "execution"), "queued_at"):
        found[profile].append(at)
    return found


def _for_device(run: Run, slots: Mapping[str, int], held: Mapping[str, list[Lease]],
                queues: Mapping[str, list[datetime]]) -> str:
    profile = run.execution["deviceProfile"]
    if not slots.get(profile):
        return f"No device of the profile {profile} is present."
    leases = held.get(profile, [])
    holders = ", ".join(f"{lease.holder_kind} {lease.holder_id[:SHOWN]}" for lease in leases)
    ahead = bisect_left(queues.get(profile, []), run.queued_at) if run.queued_at else 0
    by = f" by {holders}" if holders else ""
    waiting = f" {ahead} {'run waits' if ahead == 1 else 'runs wait'} in front of it." if ahead else ""
    return f"{len(leases)} of {slots[profile]} slots of {profile} are held{by}.{waiting}"


def _etas(runs: Iterable[Run]) -> dict[str, float]:
    """How long the remaining updates take at the pace of the last ones; nothing for a run without a pace yet."""
    training = {run.pk: run for run in runs if run.phase == "TRAINING" and run.total_steps}
    if not training:
        return {}
    paces: dict[str, list[float]] = defaultdict(list)
    recent = Metric.objects.filter(run__in=training, step__gt=F("run__observed_step") - RECENT_STEPS)
    for pk, values in recent.values_list("run_id", "values"):
        if values.get("step_seconds"):
            paces[pk].append(values["step_seconds"])
    return {pk: statistics.median(found) * _steps_left(training[pk]) for pk, found in paces.items()}


def _steps_left(run: Run) -> int:
    return max(0, (run.total_steps or 0) - run.observed_step)
