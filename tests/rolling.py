"""A reinforcement run whose job is played: the completions that an update scored, as its job would hand them over."""

import json
from typing import Any

from optimize_site.kernel.work import attempt_folder

WEIGHTS = {"format": 0.25, "exact": 1.0}
QUESTIONS = ("What is 2 + 3?", "What is 7 - 4?", "What is 6 * 7?", "What is 9 + 9?")


def completion(group: int, index: int, text: str, scores: dict[str, float | None], **changes: Any) -> dict[str, Any]:
    """One scored completion; a term whose score is None has failed, and counts as zero."""
    terms = [{"name": name, "score": score, "share": WEIGHTS[name] * (score or 0.0),
              "cause": "" if score is not None else "timeout", "explanation": f"{name} looked"}
             for name, score in scores.items()]
    prompt = [{"role": "system", "content": "Answer with a number."},
              {"role": "user", "content": QUESTIONS[group % len(QUESTIONS)]}]
    return {"group": group, "index": index, "row": 10 + group, "prompt": prompt, "tools": None, "completion": text,
            "tokens": len(text.split()), "finish": "stop", "score": sum(term["share"] for term in terms),
            "advantage": 0.0, "excluded": False, "terms": terms} | changes


def told(right: int = 2) -> list[dict[str, Any]]:
    """Two prompts of four completions, of which so many in each group are right."""
    return [completion(group, index, f"the answer is {group}{0 if index < right else index}",
                       {"format": 1.0, "exact": float(index < right)}) for group in range(2) for index in range(4)]


def rollouts(attempt: Any, step: int, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """An update's completions in the file of its job, and the event that tells of it."""
    name = f"rollouts/{step:08d}.jsonl"
    path = attempt_folder(attempt.pk) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"type": "rollouts", "step": step, "file": name, "count": len(lines)}


def figures(step: int, **values: float) -> dict[str, Any]:
    """What the job tells of an update beside its completions."""
    told = {"loss": 0.0, "reward": 0.75, "reward_std": 0.5, "zero_variance_groups": 0.0, "scored_zero": 0.0,
            "scored_full": 0.5, "kl": 0.001 * step, "entropy": 1.0, "completion_mean": 4.0, "completion_min": 4.0,
            "completion_max": 4.0, "term.format.mean": 0.25, "term.format.seconds": 0.001, "term.exact.mean": 0.5,
            "term.exact.std": 0.5, "term.exact.seconds": 0.002, "learning_rate": 1e-5, "generate_seconds": 2.0,
            "reward_seconds": 0.1, "update_seconds": 1.0}
    return {"type": "metrics", "step": step, "values": told | values}
