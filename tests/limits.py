"""A hard end for tests that look for what hangs."""

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 300


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """End the whole process, saying where it hangs, if what runs inside is not done by then.

    The C library's timer does it, so that a regular expression that never returns is ended too.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
