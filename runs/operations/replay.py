"""A stretch of a run's updates, trained once more between two of its saves: the bytes must be the recorded ones."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimize_site.kernel.errors import Refused
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.short_jobs import run_short_job
from optimize_site.kernel.work import attempt_folder
from runs import queries
from runs.models import Run, Snapshot
from runs.operations.judging import judges_of
from runs.reward import target_of
from runs.snapshots import MANIFESTS, digest_of, kinds_of, verify_kind
from runs.verify_records import Checked

MOST_SECONDS, START_SECONDS, SLACK = 600.0, 90.0, 4
STATED_BY_ATTEMPT = ("version", "attempt", "subject", "threads", "device", "unwatched_seconds")
COMPARED = ("adapter_model.safetensors", "adapter_config.json", "optimizer.pt", "scheduler.pt", "rng_state.pth")
"""The rest of a save names the attempt that wrote it."""
FIGURES = ("reward", "loss")
"""Of each update; other rewards make another loss, so they are told first."""


@dataclass(frozen=True)
class Stretch:
    """From one save, or a run's beginning, to the next one: what is trained once more."""

    first: Snapshot | None
    last: Snapshot

    @property
    def from_step(self) -> int:
        return self.first.step if self.first is not None else 0

    @property
    def updates(self) -> int:
        return self.last.step - self.from_step


def replay(run: Run) -> Checked:
    """Train the newest stretch between two saves again. Raises Refused where that cannot be done here, and
    Unavailable where the job does not answer."""
    _check_that_bytes_repeat(run)
    stretch = newest_stretch(run)
    seconds = _seconds_of(run, stretch)
    plan = _recorded_plan(stretch.last)
    _check_who_sampled(run, plan)
    found = run_short_job(_plan_of(plan, stretch), kind="replay", threads=plan["threads"],
                          seconds=START_SECONDS + SLACK * seconds)["report"]
    problems = (*_other_bytes(stretch, found["files"]), *_other_figures(run, stretch, found["figures"]))
    return Checked("replay", stretch.updates, f"updates from {stretch.from_step} to {stretch.last.step}", problems)


def newest_stretch(run: Run) -> Stretch:
    """The newest save that still has weights, and the newest before it that one can go on from. Raises Refused."""
    last = queries.newest_branchable(run)
    if last is None:
        raise _refusal(run, "keeps no save", "Ask once it has saved.")
    return Stretch(queries.newest_restorable(run).filter(step__lt=last.step).first(), last)


def _check_that_bytes_repeat(run: Run) -> None:
    if run.smoke:
        raise _refusal(run, "is a smoke check", "Start the check again: it takes a few minutes.")
    if judges_of(run):
        raise _refusal(run, "is rewarded by a model", "That model holds a device only while the run is open; runs "
                       "whose reward is code or rules can be trained again.")
    if _asks_a_service(run):
        raise _refusal(run, "is rewarded by a service", "It would be asked, and may be paid, once more; runs whose "
                       "reward is code or rules can be trained again.")
    if run.execution["deviceProfile"] != "cpu":
        raise _refusal(run, f"trains on {run.execution['deviceProfile']}", "On a processor the same updates give the "
                       "same bytes; on a GPU nobody promises that.")


def _asks_a_service(run: Run) -> bool:
    targets = [target_of(term.get("grader") or "") for term in run.config.get("reward", {}).get("terms", [])]
    return any(target is not None and target.kind == "http" for target in targets)


def _check_who_sampled(run: Run, plan: Mapping[str, Any]) -> None:
    if (plan.get("sampler") or {}).get("kind") == "vllm":
        raise _refusal(run, "was sampled for by vLLM", "vLLM does not repeat its completions bit for bit; runs that "
                       "sample with their own model (trainer.rollouts.sampler) can be trained again.")


def _seconds_of(run: Run, stretch: Stretch) -> float:
    """What the stretch took when it was first trained. Raises Refused where that is too long to wait for."""
    rows = run.metrics.filter(step__gt=stretch.from_step, step__lte=stretch.last.step).values_list("values", flat=True)
    seconds = sum(row.get("step_seconds") or 0.0 for row in rows)
    if seconds > MOST_SECONDS:
        raise _refusal(run, f"took {seconds:,.0f} seconds from update {stretch.from_step} to {stretch.last.step}, and "
                       f"{MOST_SECONDS:,.0f} are the most that a replay takes", "Saves that lie closer together "
                       "(execution.saveEvery) make stretches that can be trained again.")
    return seconds


def _refusal(run: Run, what: str, hint: str) -> Refused:
    return Refused(f"The run {run.pk[:12]} {what}; no stretch of it can be replayed.", code="replay_not_possible",
                   hint=hint)


# The plan ------------------------------------------------------------------------------------------------------------


def _recorded_plan(snapshot: Snapshot) -> dict[str, Any]:
    """What the attempt that wrote the save was told."""
    attempt = Attempt.objects.get(holder_kind=queries.KIND, holder_id=snapshot.run_id, number=snapshot.attempt)
    plan: dict[str, Any] = json.loads((attempt_folder(attempt.pk) / "plan.json").read_bytes())
    return plan


def _plan_of(plan: Mapping[str, Any], stretch: Stretch) -> dict[str, Any]:
    """The recorded plan for the stretch alone: nothing is saved or validated in between."""
    body = {name: value for name, value in plan.items() if name not in STATED_BY_ATTEMPT}
    return body | {"entry": "replay", "resume": _resume_part(stretch.first), "validation": None, "first_attempt": False,
                   "pause_at": None if stretch.last.is_final else stretch.last.step,
                   "execution": body["execution"] | {"saveEvery": None}}


def _resume_part(snapshot: Snapshot | None) -> dict[str, Any] | None:
    if snapshot is None:
        return None
    return {"folder": str(queries.folder_of_snapshot(snapshot)), "step": snapshot.step,
            "manifest_sha256": snapshot.manifest_sha256, "state_manifest_sha256": snapshot.state_manifest_sha256}


# What came of it -----------------------------------------------------------------------------------------------------


def _other_bytes(stretch: Stretch, found: Mapping[str, str]) -> Iterator[str]:
    folder = queries.folder_of_snapshot(stretch.last)
    for kind in kinds_of(stretch.last):
        for name, recorded in _recorded(folder, kind, digest_of(stretch.last, kind)).items():
            if name in COMPARED and found.get(name) != recorded:
                yield (f"Update {stretch.last.step}: {name} was saved with the hash {recorded}; trained again from "
                       f"update {stretch.from_step} it has {found.get(name, 'none')}.")


def _recorded(folder: Path, kind: str, digest: str) -> dict[str, str]:
    """The hashes that the save's own manifest states, once it was checked. Raises SnapshotDamaged."""
    verify_kind(folder, kind, digest)
    files = json.loads((folder / MANIFESTS[kind]).read_bytes())["files"]
    return {name: entry["sha256"] for name, entry in files.items()}


def _other_figures(run: Run, stretch: Stretch, found: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """The first update whose reward or loss was another one."""
    rows = run.metrics.filter(step__gt=stretch.from_step, step__lte=stretch.last.step).order_by("step")
    for row in rows:
        again = found.get(str(row.step), {})
        for name in FIGURES:
            if again.get(name) != row.values.get(name):
                yield (f"The {name} of update {row.step} was {row.values.get(name)}; trained again it is "
                       f"{again.get(name)}.")
                return
