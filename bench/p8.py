"""P8: a second upload of the same bytes against the first."""

from __future__ import annotations

import os

from bench.measure import Arm, arguments, judge, load_before, seconds
from bench.registering import MEBIBYTE, forget, fresh, register, scratch_box, template

LIMIT = 0.15


def main(argv: list[str]) -> int:
    """Each file is registered twice in a row, so that what drifts falls on both alike."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--mebibytes", type=int, default=512)
    options = parser.parse_args(argv)
    load = load_before()
    with scratch_box() as home:
        source = template(home, options.mebibytes * MEBIBYTE)
        register(fresh(source, 0))
        second, first = Arm("second upload, s", lambda: 0.0), Arm("first upload, s", lambda: 0.0)
        for number in range(1, options.repeats + 1):
            path = fresh(source, number)
            os.sync()
            first.values.append(seconds(lambda path=path: register(path)))
            second.values.append(seconds(lambda path=path: register(path)))
            path.unlink()
            forget(home)
        return judge("P8", second, first, limit=LIMIT, load=load, max_load=options.max_load)
