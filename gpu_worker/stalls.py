"""Jobs that stopped getting on: noticed, and what their threads were at recorded before they are ended.

What is found lies as `stalled.json` in the attempt's folder, so that a worker that takes over still knows why the job
is gone.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from gpu_worker import devices, processes
from optimize_site.kernel.models import Device

STACKS_SECONDS = 30.0
STACKS_CHARACTERS = 20_000
LOOKS = 10
"""How often at most, within the limit, it is asked what got on elsewhere."""
BUSY_SHARE = 0.01
"""Of one core: a job on a processor that computes more than this is slow, not stalled."""


class StallWatch:
    """Tells when a job has given no sign of getting on for `limit` seconds.

    A sign is anything new in its events and, on a processor, time spent computing: one update of a large batch may
    take hours. On a GPU only events count, because a thread that waits for a device that hangs spins. What others do
    for it is a sign too: `elsewhere` counts that. Where nobody looked for longer than the limit it starts anew:
    whatever stopped this process stopped the job too.
    """

    def __init__(self, folder: Path, *, limit: float, device_kind: str,
                 elsewhere: Callable[[], int] = lambda: 0) -> None:
        self._folder, self.limit, self._device_kind, self._elsewhere = folder, limit, device_kind, elsewhere
        self._asked, self._counted = 0.0, 0
        self._since: float | None = None
        self._looked = 0.0
        self._said = self._computed = 0.0

    def is_stalled(self, now: float) -> bool:
        """Whether `limit` has passed at `now`, a monotonic clock's seconds, since the last sign or the first look."""
        said, computed = _said(self._folder), self._seconds_computed()
        counted, self._counted = self._counted, self._count(now)
        busy = computed - self._computed > BUSY_SHARE * self.limit
        unseen, self._looked = now - self._looked > self.limit, now
        if self._since is None or said != self._said or busy or computed < self._computed or unseen \
                or counted != self._counted:
            self._since, self._said, self._computed = now, said, computed
        return now - self._since >= self.limit

    def _count(self, now: float) -> int:
        if now - self._asked < self.limit / LOOKS:
            return self._counted
        self._asked = now
        return self._elsewhere()

    def _seconds_computed(self) -> float:
        if self._device_kind == "gpu":
            return 0.0
        return sum(_seconds_of(process) for process in _family(self._folder))


def record_stall(folder: Path, device: Device, *, limit: float) -> dict[str, Any]:
    """Write down how long the job was silent, its threads' stacks or why they could not be read, and its memory."""
    job = processes.job_of(folder)
    found: dict[str, Any] = {"silentSeconds": limit} | _stacks_of(job.pid if job else 0) | {
        "memory": _memory_of(folder, device)}
    scratch = folder / "stalled.part"
    scratch.write_text(json.dumps(found))
    scratch.replace(folder / "stalled.json")
    return found


def recorded_stall(folder: Path) -> dict[str, Any] | None:
    """What `record_stall` wrote of this attempt, or None."""
    try:
        found: dict[str, Any] = json.loads((folder / "stalled.json").read_text())
    except (OSError, ValueError):
        return None
    return found


def _said(folder: Path) -> float:
    try:
        return (folder / "events.jsonl").stat().st_size
    except OSError:
        return 0


def _family(folder: Path) -> list[psutil.Process]:
    """The job and the processes it began."""
    job = processes.job_of(folder)
    with suppress(psutil.Error):
        if job is not None and job.is_alive():
            process = psutil.Process(job.pid)
            return [process, *process.children(recursive=True)]
    return []


def _seconds_of(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def _stacks_of(pid: int) -> dict[str, str]:
    """`stacks` of every thread as text, or `noStacks` with the reason. The job is read without being held up: it may
    be stopped already."""
    command = [str(Path(sys.executable).with_name("py-spy")), "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=STACKS_SECONDS,
                              check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"noStacks": str(error)}
    if done.returncode or not done.stdout.strip():
        return {"noStacks": " ".join(done.stderr.split())[:500] or f"py-spy ended with status {done.returncode}"}
    return {"stacks": done.stdout.strip()[:STACKS_CHARACTERS]}


def _memory_of(folder: Path, device: Device) -> dict[str, int]:
    """Bytes that the job's processes hold, and on a GPU what of the device is taken."""
    found = {"residentBytes": sum(_resident(process) for process in _family(folder))}
    if device.kind == "gpu":
        with suppress(KeyError):
            sample = devices.sample(device.uuid)
            found |= {"deviceUsedBytes": sample.memory_used_bytes, "deviceBytes": sample.memory_total_bytes}
    return found


def _resident(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0
