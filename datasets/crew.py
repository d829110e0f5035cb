"""Looks at the stretches of a large file with several processes; whoever asks helps out while they are all busy.

The processes stay for a while after a file, for the next one: a dataset comes in many, one after the other.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import orjson

from datasets.stretches import Region, Stretch, examine_region, stretch_of

ROOT = Path(__file__).resolve().parents[1]
MOST_HELPERS = 6
ASKED_AHEAD = 2
KEPT_SECONDS = 5.0
"""So long a helper that nobody asks is kept."""


class Helper:
    """A process that looks at one stretch at a time; the next one waits for it, so that it is never idle."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-P", "-m", "datasets.helper"], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})
        self._thread = ThreadPoolExecutor(1)
        self._asked = list[Future[Stretch]]()

    @property
    def has_room(self) -> bool:
        self._asked = [asked for asked in self._asked if not asked.done()]
        return len(self._asked) < ASKED_AHEAD

    def examine(self, region: Region) -> Future[Stretch]:
        """Ask for a region."""
        self._asked.append(self._thread.submit(self._ask, region))
        return self._asked[-1]

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a region, as a process that lives."""
        return all(asked.done() for asked in self._asked) and self._process.poll() is None

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._thread.shutdown()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        self._process.wait()

    def _ask(self, region: Region) -> Stretch:
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("the process has no pipes")
        try:
            self._process.stdin.write(orjson.dumps(asdict(region)) + b"\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        # A helper that was killed, for want of memory perhaps, costs time and no upload.
        return stretch_of(orjson.loads(answer)) if answer else examine_region(region)


class Resting:
    """Helpers that nobody asks; they end when nobody did for KEPT_SECONDS."""

    def __init__(self) -> None:
        self._lock, self._helpers, self._ending = threading.Lock(), list[Helper](), threading.Timer(0, self.end)

    def taken(self) -> Helper:
        """One that rests, else a new one."""
        with self._lock:
            while self._helpers:
                helper = self._helpers.pop()
                if helper.is_idle:
                    return helper
                helper.close()
        return Helper()

    def lay(self, helpers: list[Helper]) -> None:
        """Keep those that are done with all they were asked for; end the others."""
        idle = [helper for helper in helpers if helper.is_idle]
        for helper in helpers:
            if helper not in idle:
                helper.close()
        if not idle:
            return
        with self._lock:
            self._helpers += idle
            self._ending.cancel()
            self._ending = threading.Timer(KEPT_SECONDS, self.end)
            self._ending.daemon = True
            self._ending.start()

    def end(self) -> None:
        """End them all."""
        with self._lock:
            resting, self._helpers = self._helpers, []
        for helper in resting:
            helper.close()


class Crew:
    """Hands out regions; helpers come with the first region they are needed for."""

    def __init__(self, helpers: int):
        self._wanted, self._helpers = helpers, list[Helper]()

    def examine(self, region: Region, *, alone: bool = False) -> Future[Stretch]:
        """Look at a region: in a helper where one has room, else at once, here. `alone`: here in any case."""
        helper = None if alone else self._free()
        if helper is not None:
            return helper.examine(region)
        done: Future[Stretch] = Future()
        done.set_result(examine_region(region))
        return done

    def close(self) -> None:
        resting.lay(self._helpers)

    def _free(self) -> Helper | None:
        free = next((helper for helper in self._helpers if helper.has_room), None)
        if free is None and len(self._helpers) < self._wanted:
            free = resting.taken()
            self._helpers.append(free)
        return free


resting = Resting()


def helpers_wanted() -> int:
    """A helper for each core but the asker's own."""
    return min(len(os.sched_getaffinity(0)) - 1, MOST_HELPERS)


@contextmanager
def crew() -> Iterator[Crew]:
    """A crew for the cores of this machine; with the block its processes are another's, or end."""
    it = Crew(helpers_wanted())
    try:
        yield it
    finally:
        it.close()
