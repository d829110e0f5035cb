"""The job's parent: starts it, waits, and writes down how it ended. Standard library only.

Run as `python -P -m optimize_child.shepherd ATTEMPT_DIR`; the prepared process calls `tend` in a fork instead.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

FIRST_EVENT_SECONDS = 60.0


def main(attempt: Path) -> int:
    """Tend one plainly started job; the exit status says whether the end could be recorded."""
    tend(attempt, start_plainly)
    return 0


def tend(attempt: Path, start: Callable[[Path], int], *, watchdog_seconds: float | None = None) -> None:
    """Start the job, record both processes, wait for the end, record it.

    With `watchdog_seconds`, a job that has written no event by then is killed and started plainly, once.
    """
    ooms = oom_kills()
    job = start(attempt)
    record_processes(attempt, job)
    pass_on_termination(lambda: job)
    status = wait_for_first_event(attempt, job, watchdog_seconds) if watchdog_seconds else None
    if status is None and watchdog_seconds and not has_spoken(attempt):
        kill(job)
        os.environ.pop("OPTIMIZE_PREPARED", None)
        job = start_plainly(attempt)
        record_processes(attempt, job)
        pass_on_termination(lambda: job)
    write_exit(attempt, wait(job) if status is None else status, oom=oom_kills() > ooms)


def start_plainly(attempt: Path) -> int:
    """A fresh Python that runs the job; its output goes to the attempt's two logs."""
    pid = os.fork()
    if pid == 0:
        try:
            redirect_output(attempt)
            os.chdir(attempt)
            os.execv(sys.executable, [sys.executable, "-P", "-m", "optimize_child.job", str(attempt)])  # noqa: S606
        finally:
            os._exit(127)
    return pid


def redirect_output(attempt: Path) -> None:
    """Point standard input at nothing and standard output and error at the attempt's logs."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for name, number in (("stdout.log", 1), ("stderr.log", 2)):
        fd = os.open(attempt / name, flags, 0o644)
        os.dup2(fd, number)
        os.close(fd)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def record_processes(attempt: Path, job: int) -> None:
    """pid.json: shepherd and job, each with its start time, which tells it from a later process of the same number."""
    replace_json(
        attempt / "pid.json",
        {
            "shepherd": {"pid": os.getpid(), "started": process_started(os.getpid())},
            "job": {"pid": job, "started": process_started(job)},
        },
    )


def process_started(pid: int) -> int | None:
    """When the kernel started a process, in clock ticks since boot (field 22 of its stat); None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name may hold spaces and brackets: count fields after its closing one.
    return int(stat.rpartition(")")[2].split()[19])


def pass_on_termination(job: Callable[[], int]) -> None:
    """A TERM or INT meant for the shepherd goes to the job, so that the shepherd lives to record its end."""

    def forward(number: int, _frame: Any) -> None:
        with suppress(ProcessLookupError):
            os.kill(job(), number)

    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)


def wait_for_first_event(attempt: Path, job: int, seconds: float) -> int | None:
    """Wait until the job speaks, ends (its status is returned) or `seconds` pass."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(job, os.WNOHANG)
        if pid:
            return status
        if has_spoken(attempt):
            return None
        time.sleep(0.05)
    return None


def has_spoken(attempt: Path) -> bool:
    """Whether the job has written at least one whole event."""
    try:
        return b"\n" in (attempt / "events.jsonl").read_bytes()[:65536]
    except FileNotFoundError:
        return False


def kill(job: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(job, signal.SIGKILL)
    wait(job)


def wait(job: int) -> int:
    """The wait status of the job, whatever signals arrive meanwhile."""
    return os.waitpid(job, 0)[1]


def write_exit(attempt: Path, status: int, *, oom: bool) -> None:
    """exit.json: the code, or the signal that ended the job, and whether the kernel's memory killer was at work."""
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    replace_json(
        attempt / "exit.json",
        {
            "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": killed,
            "oom_kill": oom and killed == signal.SIGKILL,
            "ended_at": round(time.time(), 3),
        },
    )


def replace_json(path: Path, body: dict[str, Any]) -> None:
    """A reader sees the old file or the whole new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(body))
    beside.replace(path)


def oom_kills() -> int:
    """How many processes the kernel has killed for memory, as far as this one may read: its group, else the machine."""
    for path, key in (*_group_counters(), (Path("/proc/vmstat"), "oom_kill")):
        with suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == key:
                    return int(value)
    return 0


def _group_counters() -> list[tuple[Path, str]]:
    """The memory event files of this process's control group, in both layouts of the kernel."""
    found: list[tuple[Path, str]] = []
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers == "":
                found.append((Path(f"/sys/fs/cgroup{group}/memory.events"), "oom_kill"))
            elif "memory" in controllers.split(","):
                found.append((Path(f"/sys/fs/cgroup/memory{group}/memory.oom_control"), "oom_kill"))
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
