"""Running a job in a test: in this process for its result, or in one of its own to be killed."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from optimize_child import job
from tiny import events_of, read_events


def prepare(attempt: Path, plan: dict[str, Any]) -> Path:
    """An attempt's folder with its plan."""
    attempt.mkdir(parents=True)
    (attempt / "plan.json").write_text(json.dumps(plan))
    return attempt


def run(attempt: Path, plan: dict[str, Any]) -> Path:
    """Run a plan in this process; the attempt's folder holds all it did."""
    job.main(prepare(attempt, plan))
    return attempt


def metrics(attempt: Path, name: str) -> list[float]:
    """One figure of every update."""
    return [event["values"][name] for event in events_of(attempt, "metrics")]


def adapter_bytes(attempt: Path) -> bytes:
    """The weights file of the attempt's final snapshot."""
    (finished,) = events_of(attempt, "finished")
    return (attempt / finished["adapter"] / "adapter_model.safetensors").read_bytes()


def failure(attempt: Path) -> dict[str, Any]:
    """The failure event an attempt ended with."""
    last = read_events(attempt)[-1]
    assert last["type"] == "failure", last
    return last


def newest_snapshot(attempt: Path) -> dict[str, Any] | None:
    """The `resume` part of a plan that goes on from the attempt's newest complete snapshot, None without one."""
    found = [event for event in events_of(attempt, "snapshot") if event["trainingState"]]
    if not found:
        return None
    last = found[-1]
    return {
        "folder": str(attempt / last["folder"]),
        "step": last["step"],
        "manifest_sha256": last["manifestSha256"],
        "state_manifest_sha256": last["stateManifestSha256"],
    }


def control(attempt: Path, **changes: Any) -> None:
    """Replace the attempt's control file."""
    body = {"attempt": "a", "token": 1, "seen_at": time.time(), "ask": "", **changes}
    beside = attempt / ".control"
    beside.write_text(json.dumps(body))
    beside.replace(attempt / "control.json")


def wait_for(found: Callable[[], Any], seconds: float = 90) -> Any:
    """The first true value of a condition; wide enough for a busy machine."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("waited in vain")


def kill_job(attempt: Path) -> None:
    """kill -9 for the job of an attempt, as pid.json names it."""
    os.kill(json.loads((attempt / "pid.json").read_text())["job"]["pid"], signal.SIGKILL)
