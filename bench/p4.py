"""P4: a run that was paused and went on, and one that was killed and went on, against the undisturbed run: bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from bench import material
from bench.measure import arguments, load_before, verdict
from gpu_worker.launch import job_python
from tests.engine import tiny


def main(argv: list[str]) -> int:
    """Whole jobs of SmolLM2-135M with dropout, so that the generators' states matter; exact, whatever the load."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--tiny", action="store_true", help="a random model of two layers")
    options = parser.parse_args(argv)
    base = material.tiny_model() if options.tiny else material.base_model()
    load = load_before()
    plan = plan_of(base, options.steps, options.threads)
    expected = told(run(plan))
    found = {"paused and resumed": told(*paused(plan, options.steps // 2)),
             "killed and gone on": told(*killed(plan, options.steps // 2))}
    different = {name: differences(expected, one) for name, one in found.items()}
    for name, what in different.items():
        print(f"  {name:20} {what or 'the same losses and the same bytes'}")
    kept = not any(different.values())
    return verdict(f"P4: {sum(map(len, different.values()))} differences (bar 0)", kept, 5, load, float("inf"))


def plan_of(base: Path, steps: int, threads: int) -> dict[str, Any]:
    plan = material.sft_plan(base, [material.rows("train", system=True)], batch=2, steps=steps, threads=threads)
    return tiny.changed(plan, **{"config.hyperparams.lora.dropout": 0.1, "execution.saveEvery": 1})


def run(plan: dict[str, Any]) -> Path:
    attempt = material.attempt_with(plan)
    material.run_job(attempt)
    return attempt


def paused(plan: dict[str, Any], step: int) -> tuple[Path, Path]:
    """Both attempts of a run that rested after an update."""
    first = run({**plan, "pause_at": step})
    return first, run({**plan, "resume": newest_save(first)})


def killed(plan: dict[str, Any], step: int) -> tuple[Path, Path]:
    """Both attempts of a run whose process was killed once it had saved an update."""
    first = material.attempt_with(plan)
    process = subprocess.Popen([str(job_python()), "-P", "-m", "optimize_child.job", str(first)],
                               env=material.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (first / "snapshots" / f"step-{step}").exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return first, run({**plan, "resume": newest_save(first)})


def newest_save(attempt: Path) -> dict[str, Any] | None:
    """What a plan that goes on from an attempt's newest whole save says of it."""
    whole = [event for event in tiny.events_of(attempt, "snapshot") if event["trainingState"]]
    return {"folder": str(attempt / whole[-1]["folder"]), "step": whole[-1]["step"],
            "manifest_sha256": whole[-1]["manifestSha256"],
            "state_manifest_sha256": whole[-1]["stateManifestSha256"]} if whole else None


def told(*attempts: Path) -> tuple[dict[int, float], bytes]:
    """Each update's loss, a later attempt's in place of an earlier one's, and the adapter."""
    losses = {event["step"]: event["values"]["loss"] for attempt in attempts
              for event in tiny.events_of(attempt, "metrics")}
    finished, = tiny.events_of(attempts[-1], "finished")
    return losses, (attempts[-1] / finished["adapter"] / "adapter_model.safetensors").read_bytes()


def differences(expected: tuple[dict[int, float], bytes], found: tuple[dict[int, float], bytes]) -> list[str]:
    steps = [step for step in expected[0] if expected[0][step] != found[0].get(step)]
    return [*([f"losses of updates {json.dumps(steps)}"] if steps else []),
            *(["the adapter"] if expected[1] != found[1] else [])]
