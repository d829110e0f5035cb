"""P12: updates a second that the worker takes from a job's file into the database, against bare inserts of them."""

from __future__ import annotations

from bench.figures import Stored, bare_insert
from bench.measure import Arm, arguments, interleave, judge, load_before, seconds
from bench.registering import scratch_box

LIMIT = 0.5


def main(argv: list[str]) -> int:
    """Ours reads, checks the lease, stores figures, run, attempt and offset in a transaction, and rings the pages."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--updates", type=int, default=1000, help="of one measurement")
    options = parser.parse_args(argv)
    with scratch_box():
        stored, load, count = Stored(), load_before(), options.updates
        at = {"ours": 1, "bare": 10_000_001}

        def ours() -> float:
            stored.write(at["ours"], count)
            at["ours"] += count
            return count / seconds(stored.store)

        def bare() -> float:
            at["bare"] += count
            return count / seconds(lambda: bare_insert(stored.run.pk, at["bare"], count))

        sides = Arm("a job's events stored", ours), Arm("bare inserts", bare)
        print(f"updates a second, {count} at a time")
        interleave(*sides, options.repeats)
        return judge("P12", *sides, limit=LIMIT, load=load, max_load=options.max_load, more=True)
