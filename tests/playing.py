"""A run whose job is played: the events a job would say, the snapshots it would leave, the endings it would have."""

import hashlib
import json
import time

from django.utils import timezone

from gpu_worker import claims
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.work import Ending, attempt_folder
from runs import queries
from runs.models import Run
from runs.operations import advance_run
from runs.work import RunWork

WORK = RunWork()
FILES = {"weights": ("adapter_model.safetensors", "adapter_config.json"), "state": ("optimizer.pt",)}


def reread(run):
    return Run.objects.get(pk=run.pk)


def claim(run):
    """The run's next attempt, as the device worker makes it."""
    attempt = claims.claim("cpu", 0)
    assert attempt is not None
    assert attempt.holder_id == run.pk
    return attempt


def say(run, attempt, *events):
    WORK.on_events(WORK.get(run.pk), attempt, [{"v": 1, "t": time.time()} | event for event in events])
    return reread(run)


def end(run, attempt, outcome, *, exit=None, last_words=""):
    Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now(), outcome=outcome)
    attempt.refresh_from_db()
    WORK.on_exit(WORK.get(run.pk), attempt, Ending(outcome, exit or {"code": 0, "signal": None}, last_words))
    claims.release(attempt.lease)
    return reread(run)


def metrics(step, loss=1.0, **values):
    return {"type": "metrics", "step": step, "values": {"loss": loss, "step_seconds": 2.0} | values}


def stage(name, done=None, total=None):
    return {"type": "stage", "name": name, "done": done, "total": total}


STARTED = {"type": "started", "pid": 1, "versions": {}}


def failure(code, reason="It broke."):
    return {"type": "failure", "code": code, "reason": reason, "hint": "Mend it.", "evidence": {"rows": [3]}}


def save(attempt, step, *, final=False, state=True):
    """A snapshot on disk, and the event that tells of it."""
    folder = attempt_folder(attempt.pk) / "snapshots" / f"step-{step}"
    folder.mkdir(parents=True)
    digests = {kind: save_kind(folder, kind, step) for kind in (FILES if state else ("weights",))}
    return {"type": "snapshot", "step": step, "folder": f"snapshots/step-{step}", "weights": True,
            "trainingState": state, "manifestSha256": digests["weights"], "stateManifestSha256": digests.get("state"),
            "bytes": 27, "final": final, "epoch": 1.0}


def save_kind(folder, kind, step):
    """The files of one kind and their manifest, whose digest this gives."""
    files = {}
    for name in FILES[kind]:
        (folder / name).write_bytes(f"{name} {step}".encode())
        files[name] = {"sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest(), "bytes": 9}
    manifest = json.dumps({"version": 2, "kind": kind, "step": step, "files": files}).encode()
    (folder / f"{kind}.manifest.json").write_bytes(manifest)
    return hashlib.sha256(manifest).hexdigest()


def complete(run):
    """Play a run to its end, with a save on the way."""
    advance_run(run.pk)
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(2), save(attempt, 2), metrics(4), save(attempt, 4, final=True))
    end(run, attempt, "finished")
    advance_run(run.pk)
    return reread(run)


def phases_of(run):
    return [event.data["phase"] for event in queries.events_of(run) if "from" in event.data]
