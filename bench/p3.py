"""P3: our losses against plain TRL's over the first four updates, on the same rows in the same order."""

from __future__ import annotations

from bench import material, p1
from bench.measure import arguments, load_before, verdict

LIMIT = 1e-6
UPDATES = 4


def main(argv: list[str]) -> int:
    """The fast path within rounding, the strict path to the last bit."""
    parser = arguments(__doc__ or "", repeats=UPDATES)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args(argv)
    base, worst = material.base_model(), 0
    for strict in (False, True):
        worst = max(worst, compare(base, options, strict=strict))
    return worst


def compare(base, options, *, strict: bool) -> int:
    load = load_before()
    ours, theirs = p1.arms(base, options, system=True, steps=UPDATES, strict=strict)
    try:
        pairs = [(ours.step()["loss"], theirs.step()["loss"]) for _ in range(UPDATES)]
    finally:
        ours.close()
        theirs.close()
    difference = max(abs(a - b) / abs(b) for a, b in pairs)
    for update, (a, b) in enumerate(pairs, start=1):
        print(f"  update {update}: {a!r} against {b!r}")
    limit = 0.0 if strict else LIMIT
    name = "strict path" if strict else "fast path"
    # Losses do not depend on the load, so they are judged on a busy machine too.
    return verdict(f"P3 {name}: {difference:.2e} (bar ≤ {limit})", difference <= limit, 5, load, float("inf"))
