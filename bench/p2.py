"""P2: the time of an update of pairs (`--method dpo`) or of rewarded completions (`--method grpo`), ours against what
TRL's own trainer of the same takes at its defaults.

Over pairs, ours reads the reference's log-probabilities before the first update; each update is charged its share of
that. Completions are all as long as they may be, so that both sides compute as many tokens. They sample each for
itself, so their losses are compared apart from that: TRL's trainer is given our completions and scores.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from bench import material
from bench.measure import Arm, arguments, interleave, judge, load_before
from bench.stepper import Stepper

LIMITS = {"dpo": 0.7, "grpo": 0.5}
LOSSES = {"dpo": 1e-4, "grpo": 1e-6}
REPLAYED = 2


def main(argv: list[str]) -> int:
    """A/B/B/A over single updates of two processes that wait for each other; their losses must agree."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--method", choices=tuple(LIMITS), default="dpo")
    parser.add_argument("--batch", type=int, default=4, help="pairs in an update, or completions of a prompt")
    parser.add_argument("--prompts", type=int, default=2, help="prompts in an update of grpo")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of a completion")
    parser.add_argument("--no-system", action="store_true", help="rows without their shared system prompt")
    options = parser.parse_args(argv)
    load, sides = load_before(), pair_arms if options.method == "dpo" else group_arms
    apart = completions_apart(options) if options.method == "grpo" else None
    ours, theirs = sides(options, steps=options.repeats + 1)
    try:
        for stepper in (ours, theirs):
            stepper.step()
        arms = [Arm(name, lambda s=s: s.step()["seconds"]) for name, s in (("ours", ours), ("plain TRL", theirs))]
        interleave(*arms, options.repeats)
        worst = pairs_apart(ours, theirs) if apart is None else apart
        bar = LOSSES[options.method]
        print(f"  losses differ by at most {worst:.1e} (bar ≤ {bar:.0e})")
        name, limit = f"P2 ({options.method.upper()})", LIMITS[options.method]
        verdict = judge(name, *arms, limit=limit, load=load, max_load=options.max_load)
        return verdict if worst <= bar else 1
    finally:
        ours.close()
        theirs.close()


def pair_arms(options: Any, *, steps: int) -> tuple[Stepper, Stepper]:
    """Our job and TRL's trainer, both standing before their first update over the same pairs in the same order."""
    base, pairs = material.base_model(), material.pairs(options.batch * steps, system=not options.no_system)
    plan = material.dpo_plan(base, [pairs], batch=options.batch, steps=steps, threads=options.threads)
    ours = Stepper("our_dpo.py", {"attempt": str(material.attempt_with(plan))}, threads=options.threads)
    settings = {"base": str(base), "rows": str(pairs), "batch": options.batch, "steps": steps}
    theirs = Stepper("plain_dpo_arm.py", {**settings, "threads": options.threads}, threads=options.threads)
    return ours, theirs


def pairs_apart(ours: Stepper, theirs: Stepper) -> float:
    """The largest relative difference of the losses of pairs."""
    both = zip(ours.replies, theirs.replies, strict=True)
    return max(abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in both)


def group_arms(options: Any, *, steps: int) -> tuple[Stepper, Stepper]:
    """Our job and TRL's trainer, both standing before their first update over as many prompts."""
    plan, rows = _group_plan(options, steps)
    ours = Stepper("our_grpo.py", {"attempt": str(material.attempt_with(plan))}, threads=options.threads)
    settings = {"plan": plan, "rows": str(rows), "steps": steps, "threads": options.threads}
    theirs = Stepper("plain_grpo_arm.py", settings, threads=options.threads)
    return ours, theirs


def completions_apart(options: Any) -> float:
    """The largest difference of the losses of our first updates from TRL's over the same completions."""
    plan, _ = _group_plan(options, REPLAYED)
    record = Path(tempfile.mkdtemp(prefix="bench-")) / "updates.pt"
    attempt = material.attempt_with(plan)
    ours = Stepper("our_grpo.py", {"attempt": str(attempt), "record": str(record)}, threads=options.threads)
    settings = {"plan": plan, "record": str(record), "threads": options.threads}
    losses = [ours.step()["loss"] for _ in range(REPLAYED)]
    ours.close()
    theirs = Stepper("replay_grpo.py", settings, threads=options.threads)
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
