"""A short check of the GPU path, for a machine that has one: `.venv-jobs/bin/python -P tests/gpu/check.py`.

Trains and answers with the tiny model on the device and beside it on the CPU, and compares. Prints one line a check;
the exit status is 0 when all hold. It is no part of the test suites: those need no GPU.
"""

import importlib.util
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "engine"), str(ROOT / "gpu_worker" / "child")]

import jobs  # noqa: E402
import tiny  # noqa: E402
import torch  # noqa: E402
from optimize_child.answering.answers import Asked, Limits, answer_all  # noqa: E402
from optimize_child.bases.models import load_model  # noqa: E402
from optimize_child.rendering.template import ChatTemplate  # noqa: E402
from optimize_child.rendering.tokenizer import load_tokenizer  # noqa: E402

# bf16 keeps about three digits; a tiny random model's loss is near 6.
TOLERANCE = 0.03
VLLM_GAP = 0.05


def main() -> int:
    if not torch.cuda.is_available():
        print("no GPU here, nothing checked")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="gpu-check-"))
    base = tiny.make_base_model(folder / "base")
    rows = folder / "train.jsonl"
    rows.write_text("".join(f"{json.dumps(row)}\n" for row in tiny.ticket_rows(24)))
    results = [losses_agree(folder, base, rows), pairs_agree(folder, base), resumes(folder, base, rows),
               answers_agree(base), vllm_samples(folder, base, rows)]  # fmt: skip
    return 0 if all(results) else 1


def cuda(plan: dict) -> dict:
    """The same plan on the first device, by its UUID."""
    return {**plan, "device": {"kind": "cuda", "uuids": [f"GPU-{torch.cuda.get_device_properties(0).uuid}"]}}


def told(name: str, holds: bool, detail: str) -> bool:
    print(f"{'ok  ' if holds else 'FAIL'} {name}: {detail}", flush=True)
    return holds


def losses_agree(folder: Path, base: Path, rows: Path) -> bool:
    """The device's losses are the CPU's up to bf16, and its memory is told."""
    plan = tiny.sft_plan(base, [rows])
    on_cpu = jobs.metrics(jobs.run(folder / "cpu", plan), "loss")
    attempt = jobs.run(folder / "cuda", cuda(plan))
    on_device = jobs.metrics(attempt, "loss")
    worst = max(abs(a - b) / b for a, b in zip(on_device, on_cpu, strict=True))
    resolved = tiny.events_of(attempt, "engine_config")[0]["resolved"]
    peak = jobs.metrics(attempt, "peak_memory_reserved_bytes")[-1]
    holds = worst <= TOLERANCE and resolved["computeType"] == "bfloat16" and peak > 0
    return told("losses", holds, f"{worst:.2g} apart, liger {resolved['liger']}, {peak / 2**20:.0f} MiB reserved")


def pairs_agree(folder: Path, base: Path) -> bool:
    """Preference pairs that share a pass on the device, with Liger's loss where it is installed, lose what the CPU's
    lose one at a time."""
    pairs = folder / "pairs.jsonl"
    pairs.write_text("".join(f"{json.dumps(pair)}\n" for pair in tiny.pair_rows(12)))
    worst, ways = 0.0, set()
    for loss_type in ("sigmoid", "ipo"):
        plan = tiny.dpo_plan(base, [pairs], **{"config.preference.lossType": loss_type})
        on_cpu = jobs.metrics(jobs.run(folder / f"cpu-{loss_type}", plan), "loss")
        attempt = jobs.run(folder / f"cuda-{loss_type}", cuda(plan))
        both = zip(jobs.metrics(attempt, "loss"), on_cpu, strict=True)
        worst = max(worst, *(abs(a - b) / b for a, b in both))
        ways.add(tiny.events_of(attempt, "engine_config")[0]["resolved"]["preferenceLoss"]["how"])
    return told("pairs", worst <= TOLERANCE, f"{worst:.2g} apart, {', '.join(sorted(ways))}")


def resumes(folder: Path, base: Path, rows: Path) -> bool:
    """A run that resumes from its third update goes on with the losses of the undisturbed one."""
    plan = cuda(tiny.sft_plan(base, [rows], **{"execution.saveEvery": 3}))
    whole = jobs.run(folder / "whole", plan)
    snapshot = tiny.events_of(whole, "snapshot")[0]
    resume = {"folder": str(whole / snapshot["folder"]), "step": snapshot["step"]}
    second = jobs.run(folder / "second", {**plan, "resume": resume, "first_attempt": False})
    ours, theirs = jobs.metrics(second, "loss"), jobs.metrics(whole, "loss")[snapshot["step"] :]
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs, strict=True))
    return told("resume", worst <= TOLERANCE, f"{worst:.2g} apart")


def vllm_samples(folder: Path, base: Path, rows: Path) -> bool:
    """vLLM, where it is installed, samples three updates of an adapter that moves: its probabilities stay the trainer's
    up to bf16, and its process and its memory are gone with the run."""
    if importlib.util.find_spec("vllm") is None:
        return told("vllm", True, "not installed, not checked")
    before = torch.cuda.mem_get_info()[0]
    changes = {"config.rlHyperparams.maxSteps": 3, "config.rlHyperparams.optimizer.learningRate": 0.01}
    beside = {"kind": "vllm", "reason": "", "python": "", "memory_share": 0.3, "at_once": 8, "required": True}
    attempt = jobs.run(folder / "vllm", cuda(tiny.rl_plan(base, [rows], sampler=beside, **changes)))
    gaps = jobs.metrics(attempt, "sampler_gap")
    version = tiny.events_of(attempt, "engine_config")[0]["resolved"]["sampler"]["version"]
    torch.cuda.empty_cache()
    kept = (before - torch.cuda.mem_get_info()[0]) / 2**30
    holds = len(gaps) == 3 and max(gaps) <= VLLM_GAP and kept < 1
    return told("vllm", holds, f"{version}, at most {max(gaps):.2g} apart, {kept:.2f} GiB kept")


def answers_agree(base: Path) -> bool:
    """Most greedy answers are the CPU's; a tie that rounding breaks the other way is none of our making."""
    tokenizer = load_tokenizer(base)
    chat = ChatTemplate(tokenizer)
    texts = [chat.render(row["messages"][:-1], to_answer=True) for row in tiny.ticket_rows(20)]
    prompts = chat.tokenize(texts)[0]
    limits = Limits(frozenset({tokenizer.eos_token_id}), 6)
    found = [
        {one.key: one.answer[:1] for one in answer_all(load_model(base, device=device).eval(), asked(prompts), limits)}
        for device in ("cpu", "cuda")
    ]
    same = sum(found[0][key] == found[1][key] for key in found[0])
    return told("answers", same >= 16, f"{same} of 20 begin alike")


def asked(prompts: list) -> list:
    return [Asked(index, prompt) for index, prompt in enumerate(prompts)]


if __name__ == "__main__":
    sys.exit(main())
