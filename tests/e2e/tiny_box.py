"""A box with a base model small enough to train in seconds, and rows for it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from optimize_site.appliance.places import CHECKOUT
from tests.e2e.conftest import Box

TINY = "acme/tiny"
MAKE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tiny import make_base_model, pair_rows, ticket_rows
import json
folder = Path(sys.argv[2])
make_base_model(folder / "tiny")
for name, rows in (("train", ticket_rows(240, seed=1)), ("eval", ticket_rows(24, seed=2)), ("pairs", pair_rows(48))):
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\\n" for row in rows))
"""


def jobs_python() -> str:
    """The training environment's interpreter."""
    return str(Path(os.environ.get("OPTIMIZE_JOBS_VENV", CHECKOUT / ".venv-jobs")) / "bin" / "python")


def make_material(folder: Path) -> None:
    """Write a tiny base model, train.jsonl, eval.jsonl, pairs.jsonl and run.json into a folder that lacks them."""
    if (folder / "run.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [jobs_python(), "-P", "-c", MAKE, str(CHECKOUT / "tests" / "engine"), str(folder)],
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=600,
        capture_output=True,
    )
    (folder / "run.json").write_text(json.dumps(descriptor()))


def descriptor(*, max_steps: int = 20, save_every: int = 5, **changes: Any) -> dict[str, Any]:
    """A supervised run over the tiny model."""
    training = {"epochs": 20, "maxSteps": max_steps, "microBatchPerGpu": 4, "gradientAccumulation": 2}
    return {
        "kind": "run",
        "workload": "triage",
        "baseModel": TINY,
        "configName": "tiny",
        "config": {
            "dataset": "triage/train",
            "maxSeqLength": 512,
            "hyperparams": {"lora": {"rank": 4}, "optimizer": {"learningRate": 0.005}, "training": training},
        },
        "execution": {"saveEvery": save_every},
    } | changes


def add_tiny_model(box: Box, material: Path) -> None:
    """Let the box's catalog allow the tiny model."""
    catalogs = box.home / "catalogs"
    catalogs.mkdir(parents=True, exist_ok=True, mode=0o700)
    (catalogs / "base_models.toml").write_text(
        f'["{TINY}"]\nsource = {{ kind = "folder", path = "{material / "tiny"}" }}\n'
        'engines = { trl = ["sft", "dpo", "grpo", "gspo"] }\n'
    )
    # A model this small is quickest on one thread.
    (catalogs / "devices.toml").write_text("[cpu]\nthreads = 1\n")


def ask(box: Box, *words: str, timeout: float = 240) -> Any:
    """A command's JSON; it must end with 0."""
    done = box.run(*words, "-o", "json", timeout=timeout)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}\n{box.logs()}"
    return json.loads(done.stdout)
