"""Runs on a real box, as the tests of its whole life and of faults follow them: started, ended, and held to bytes."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_worker import processes
from tests.e2e.conftest import Box, wait_until
from tests.e2e.http import Http
from tests.e2e.tiny_box import TINY, add_tiny_model, ask, descriptor, make_material

OVER = {"COMPLETED", "FAILED", "CANCELLED"}
STEPS = 120


def ready_box(home: Path, material: Path) -> Box:
    """A box that is up and has the tiny model and its rows; whoever takes it puts it down."""
    make_material(material)
    box = Box(home)
    add_tiny_model(box, material)
    box.up()
    prepare(http_of(box, "preparing"), material)
    return box


def prepare(http: Http, material: Path) -> None:
    """Everything before the first run."""
    http.post(f"/v1/training/base-models/{TINY}/select", {})
    for name in ("train", "eval", "pairs"):
        rows = (material / f"{name}.jsonl").read_bytes()
        http.call("POST", f"/v1/registry/datasets/triage/{name}/versions", rows, "application/octet-stream")
    http.post("/v1/training/workloads", {"name": "triage", "dataset": "triage/eval", "grader": "json-label-match"})
    http.follow(f"/v1/training/base-models/{TINY}", "selection", {"READY"})


def http_of(box: Box, name: str) -> Http:
    """The box asked without a process for every question, so that the questions leave its cores to the training."""
    return Http(box, ask(box, "tokens", "create", name)["token"])


def start(http: Http, *, steps: int = STEPS, save_every: int = 20, **changes: Any) -> str:
    """The ID of a new run over the tiny model."""
    body = descriptor(max_steps=steps, save_every=save_every, **changes)
    run_id: str = http.post("/v1/training/runs", body)["runId"]
    return run_id


def run_of(http: Http, run_id: str) -> Any:
    """The run as the box shows it."""
    return http.get(f"/v1/training/runs/{run_id}")


def train_past(http: Http, run_id: str, step: int) -> None:
    """Wait until the box has seen an update of the run."""
    wait_until(lambda: run_of(http, run_id)["observedStep"] >= step, 120, f"step {step}")


def finish(http: Http, run_id: str) -> Any:
    """The run once it is over; it must have completed."""
    run = http.follow(f"/v1/training/runs/{run_id}", "phase", OVER)
    assert run["phase"] == "COMPLETED", f"{run['failureReason']}\n{http.box.logs()}"
    return run


def adapter_hash(http: Http, run: Any) -> str:
    """SHA-256 of the adapter that a run registered."""
    files = http.get(f"/v1/registry/models/{run['modelId']}")["files"]
    return str(next(entry["sha256"] for entry in files if entry["path"].endswith("adapter_model.safetensors")))


def losses(http: Http, run: Any) -> dict[int, float]:
    """The loss of each update."""
    rows = http.get(f"/v1/training/runs/{run['runId']}/metrics")["metrics"]
    return {row["step"]: row["loss"] for row in rows}


def verify(http: Http, run: Any, **options: Any) -> dict[str, int]:
    """How many of each were looked at by verifying the run, which must find nothing wrong."""
    query = "".join(f"?{name}={value}" for name, value in options.items())
    found = http.get(f"/v1/training/runs/{run['runId']}/verify{query}")
    assert found["verified"], found["checks"]
    return {check["name"]: check["count"] for check in found["checks"]}


def attempt_of(box: Box, run_id: str) -> Path | None:
    """The folder of a run's newest attempt, found by the attempts' own records; None before its first."""
    found = (box.home / "attempts").glob("*/plan.json")
    for plan in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True):
        if json.loads(plan.read_text())["subject"]["id"] == run_id:
            return plan.parent
    return None


@contextmanager
def halted(box: Box, run_id: str, *, save: int) -> Iterator[None]:
    """A run's job stands still inside the block, once it has saved an update: however slow the machine is, what is done
    to it there finds it in its midst."""
    wait_until(lambda: _has_saved(box, run_id, save), 240, f"the save of update {save}", every=0.02)
    job = processes.job_of(attempt_of(box, run_id) or Path("/nowhere"))
    assert job, "its job was not written down"
    job.send(signal.SIGSTOP)
    try:
        yield
    finally:
        job.send(signal.SIGCONT)


def _has_saved(box: Box, run_id: str, step: int) -> bool:
    events = (attempt_of(box, run_id) or Path("/nowhere")) / "events.jsonl"
    lines = events.read_text().split("\n")[:-1] if events.exists() else []
    return any(event["type"] == "snapshot" and event["step"] >= step for event in map(json.loads, lines))


def asked_of(box: Box, run_id: str) -> str:
    """What the box asks of a run's job."""
    attempt = attempt_of(box, run_id)
    return str(json.loads((attempt / "control.json").read_text())["ask"]) if attempt else ""
