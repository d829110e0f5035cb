"""P23: the processor share and memory of an idle box, its prepared job process left out."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.measure import arguments, load_before, verdict

CPU_LIMIT, MEMORY_LIMIT = 0.01, 350


def main(argv: list[str]) -> int:
    """Watches the process tree of a supervisor that is up and has nothing to do."""
    parser = arguments(__doc__ or "", repeats=5)
    parser.add_argument("--pid", type=int, required=True, help="the supervisor's process")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args(argv)
    load, pids = load_before(), tree(options.pid)
    before, started = processor_seconds(pids), time.monotonic()
    time.sleep(options.seconds)
    share = (processor_seconds(pids) - before) / (time.monotonic() - started)
    memory = sum(map(proportional_mebibytes, pids))
    print(f"  {len(pids)} processes, {share:.2%} of a core, {memory:.0f} MiB")
    text = f"P23: {share:.2%} of a core (bar ≤ {CPU_LIMIT:.0%}), {memory:.0f} MiB (bar ≤ {MEMORY_LIMIT})"
    return verdict(text, share <= CPU_LIMIT and memory <= MEMORY_LIMIT, 5, load, options.max_load)


def tree(root: int) -> list[int]:
    """A process and all its descendants, without the prepared job process."""
    parents = {int(path.name): parent(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        if b"optimize_child.zygote" not in command(pid):
            found.append(pid)
            queue += [child for child, above in parents.items() if above == pid]
    return found


def stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def parent(pid: int) -> int:
    fields = stat(pid)
    return int(fields[1]) if fields else 0


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def processor_seconds(pids: list[int]) -> float:
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(sum(map(int, fields[11:13])) for fields in map(stat, pids) if fields) / ticks


def proportional_mebibytes(pid: int) -> float:
    """A process's memory, what it shares with others counted in part."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))
