"""P13: storing a batch of figures that was stored before, with 200,000 updates behind it against 10,000."""

from __future__ import annotations

from bench.figures import Stored
from bench.measure import Arm, arguments, interleave, judge, load_before, seconds
from bench.registering import scratch_box

LIMIT = 1.2
SHORT, LONG = 10_000, 200_000


def main(argv: list[str]) -> int:
    """What a worker does after a crash between storing and knowing of it: the same file from the same offset again."""
    parser = arguments(__doc__ or "", repeats=11)
    parser.add_argument("--updates", type=int, default=500, help="of the batch")
    options = parser.parse_args(argv)
    load = load_before()
    with scratch_box():
        sides = [Arm(f"{history:,} updates before", _again(history, options.updates)) for history in (LONG, SHORT)]
        print(f"seconds for {options.updates} updates again")
        interleave(*sides, options.repeats)
        return judge("P13", *sides, limit=LIMIT, load=load, max_load=options.max_load)


def _again(history: int, updates: int):
    """A run with a history whose last batch is stored once; gives what stores it again."""
    stored = Stored(slot=0 if history == LONG else 1)
    stored.fill(history)
    stored.write(history + 1, updates)
    stored.store()

    def again() -> float:
        stored.forget_offset(0)
        return seconds(stored.store)

    return again
