"""P2: the time of an update of pairs (`--method dpo`) or of rewarded completions (`--method grpo`), ours against what
TRL's own trainer of the same takes at its defaults.

Over pairs, ours reads the reference's log-probabilities before the first update; each update is charged its share of
that. Completions are all as long as they may be, so that both sides compute as many tokens. They sample each for
itself, so their losses are compared apart from that: TRL's trainer is given our completions and scores.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from bench import material
from bench.measure import LEAST_REPEATS, Arm, arguments, interleave, judge, load_before
from bench.stepper import Stepper

LIMITS = {"dpo": 0.7, "grpo": 0.5}
LOSSES = {"dpo": 1e-4, "grpo": 1e-6}
REPLAYED = 2


def main(argv: list[str]) -> int:
    """A/B/B/A over single updates of two processes that wait for each other; their losses must agree."""
    parser = arguments(__doc__ or "", repeats=LEAST_REPEATS)
    parser.add_argument("--method", choices=tuple(LIMITS), default="dpo")
    parser.add_argument("--batch", type=int, default=4, help="pairs in an update, or completions of a prompt")
    parser.add_argument("--prompts", type=int, default=2, help="prompts in an update of grpo")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of a completion")
    parser.add_argument("--no-system", action="store_true", help="rows without their shared system prompt")
    options = parser.parse_args(argv)
    load, sides = load_before(), {"dpo": over_pairs, "grpo": over_groups}[options.method]
    ours, theirs, worst = sides(options)
    bar = LOSSES[options.method]
    print(f"  losses differ by at most {worst:.1e} (bar ≤ {bar:.0e})")
    name, limit = f"P2 ({options.method.upper()})", LIMITS[options.method]
    verdict = judge(name, ours, theirs, limit=limit, load=load, max_load=options.max_load)
    return verdict if worst <= bar else 1


def over_pairs(options: Any) -> tuple[Arm, Arm, float]:
    """Both arms as measured, and the largest relative difference of their losses."""
    ours, theirs = pair_arms(options, steps=options.repeats + 1)
    arms = _measured(ours, theirs, options.repeats, warming=1)
    both = zip(ours.replies, theirs.replies, strict=True)
    return *arms, max(abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in both)


def over_groups(options: Any) -> tuple[Arm, Arm, float]:
    """The same; what our updates before the measured ones learned from, TRL's trainer learns from too."""
    plan, rows = _group_plan(options, options.repeats + REPLAYED)
    record = Path(tempfile.mkdtemp(prefix="bench-")) / "updates.pt"
    ours, theirs = group_arms(plan, rows, record, options)
    arms = _measured(ours, theirs, options.repeats, warming=REPLAYED)
    return *arms, completions_apart([reply["loss"] for reply in ours.replies[:REPLAYED]], plan, record)


def _measured(ours: Stepper, theirs: Stepper, repeats: int, *, warming: int) -> tuple[Arm, Arm]:
    """Both sides' updates in turn, after one of theirs and so many of ours that are not measured."""
    try:
        for stepper in (*[ours] * warming, theirs):
            stepper.step()
        arms = [Arm(name, lambda s=s: s.step()["seconds"]) for name, s in (("ours", ours), ("plain TRL", theirs))]
        interleave(*arms, repeats)
        return arms[0], arms[1]
    finally:
        ours.close()
        theirs.close()


def pair_arms(options: Any, *, steps: int) -> tuple[Stepper, Stepper]:
    """Our job and TRL's trainer, both standing before their first update over the same pairs in the same order."""
    base, pairs = material.base_model(), material.pairs(options.batch * steps, system=not options.no_system)
    plan = material.dpo_plan(base, [pairs], batch=options.batch, steps=steps, threads=options.threads)
    ours = Stepper("our_dpo.py", {"attempt": str(material.attempt_with(plan))}, threads=options.threads)
    settings = {"method": "dpo", "base": str(base), "rows": str(pairs), "batch": options.batch, "steps": steps}
    theirs = Stepper("plain_trainer.py", {**settings, "threads": options.threads}, threads=options.threads)
    return ours, theirs


def group_arms(plan: dict[str, Any], rows: Path, record: Path, options: Any) -> tuple[Stepper, Stepper]:
    """Our job and TRL's trainer, both standing before their first update over as many prompts."""
    ours_settings = {"attempt": str(material.attempt_with(plan)), "record": str(record), "recorded": REPLAYED}
    ours = Stepper("our_grpo.py", ours_settings, threads=options.threads)
    settings = {"plan": plan, "rows": str(rows), "steps": options.repeats + 1, "threads": options.threads}
    return ours, Stepper("plain_grpo_arm.py", settings, threads=options.threads)


def completions_apart(losses: list[float], plan: dict[str, Any], record: Path) -> float:
    """The largest difference of our first losses from TRL's over the same completions; nobody measures its time, so it
    has all cores."""
    threads = os.cpu_count() or 1
    theirs = Stepper("replay_grpo.py", {"plan": plan, "record": str(record), "threads": threads}, threads=threads)
    try:
        return max(abs(a - b) for a, b in zip(losses, theirs.ready["losses"], strict=True))
    finally:
        theirs.close()


def _group_plan(options: Any, steps: int) -> tuple[dict[str, Any], Path]:
    rows = material.rows("train", system=not options.no_system, count=options.prompts * steps)
    plan = material.rl_plan(
        material.base_model(), [rows], prompts=options.prompts, group=options.batch, tokens=options.tokens,
        steps=steps, threads=options.threads,
    )  # fmt: skip
    return json.loads(json.dumps(plan)), rows
