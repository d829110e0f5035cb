"""Jobs that a request waits for. They hold no device and no lease, write nothing that lasts, and run one at a time."""

import fcntl
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_worker.engines.plans import complete
from gpu_worker.launch import start_job
from gpu_worker.processes import recorded
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import OperationError, Refused, Unavailable
from optimize_site.kernel.ids import new_id
from optimize_site.kernel.short_jobs import WAIT_SECONDS
from optimize_site.processes import start_time

TURN_SECONDS = 30.0
LOOK_SECONDS = 0.02
START = Callable[[Path], int]


class ShortJobRunner:
    """Starts the job from the prepared process where one is ready, and reads what it said from its folder."""

    def __init__(self, start: START = start_job) -> None:
        self._start = start

    def run(self, plan: Mapping[str, Any], *, kind: str, threads: int = 1,
            seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """See `optimize_site.kernel.short_jobs.ShortJobs`."""
        job = new_id()
        whole = complete(plan, attempt=job, subject={"kind": kind, "id": job}, threads=threads, device={"kind": "cpu"})
        with _turn(kind), _folder(job) as folder:
            (folder / "plan.json").write_text(json.dumps(whole))
            shepherd = self._start(folder)
            if not _over(folder, shepherd, seconds):
                _kill(folder)
                raise Unavailable(f"The {kind} did not finish within {seconds:g} seconds.", hint="Try again when "
                                  "the box has less to do, or ask for less.")
            return _last_word(folder, kind)


@contextmanager
def _turn(kind: str) -> Iterator[None]:
    """One of a kind at a time on a box: each takes as much memory as a job that is starting."""
    path = home() / "run" / f"{kind}.lock"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("w") as lock:
        if not _until(lambda: _locked(lock.fileno()), TURN_SECONDS):
            raise Unavailable(f"Another {kind} is being made.", hint="Try again in a moment.")
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _folder(job: str) -> Iterator[Path]:
    """The job's folder in the state folder, gone afterwards."""
    folder = home() / "short-jobs" / job
    folder.mkdir(parents=True, mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _over(folder: Path, shepherd: int, seconds: float) -> bool:
    """Wait for the shepherd's record of the job's end, or for its own; False when time is up."""
    return _until(lambda: (folder / "exit.json").exists() or start_time(shepherd) is None, seconds)


def _until(found: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not found():
        if time.monotonic() > end:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def _kill(folder: Path) -> None:
    for process in recorded(folder):
        process.send(signal.SIGKILL)


def _last_word(folder: Path, kind: str) -> dict[str, Any]:
    lines = (folder / "events.jsonl").read_bytes().splitlines() if (folder / "events.jsonl").exists() else []
    last: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if last.get("type") == "finished":
        return last
    raise _failure(last, kind)


def _failure(last: Mapping[str, Any], kind: str) -> OperationError:
    if last.get("type") != "failure" or last["code"] == "unexpected":
        return Unavailable(f"The {kind} ended without an answer. {last.get('reason', '')}".strip(), hint="Try again.")
    return Refused(last["reason"], hint=last["hint"], code=last["code"])
