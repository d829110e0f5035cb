"""The log files: one a process, appended to, kept below a bound, read by `./optimize logs`."""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from optimize_site.appliance.errors import ApplianceError

LARGEST_BYTES = 10 * 1024 * 1024
KEPT = 3


def open_log(path: Path) -> int:
    """A descriptor that appends to the log, whoever else writes."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate(folder: Path, largest: int = LARGEST_BYTES) -> None:
    """Put aside every log that grew too large.

    Its writers keep their descriptor, so the file is copied and emptied, not renamed; a line written between the two
    is lost.
    """
    for path in folder.glob("*.log"):
        if path.stat().st_size > largest:
            for number in range(KEPT - 1, 0, -1):
                older = path.with_name(f"{path.name}.{number}")
                if older.exists():
                    older.replace(path.with_name(f"{path.name}.{number + 1}"))
            shutil.copyfile(path, path.with_name(f"{path.name}.1"))
            os.truncate(path, 0)


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a file, without reading the whole of it."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 400 * count - 4096))
            return file.read().decode(errors="replace").splitlines()[-count:]
    except OSError:
        return []


def show_logs(folder: Path, name: str | None, *, follow: bool, count: int) -> None:
    """Print the end of one log, or of all of them, and go on printing where `follow` is set."""
    paths = [_named(folder, name)] if name else sorted(folder.glob("*.log"))
    if not paths:
        raise ApplianceError(f"There are no logs in {folder} yet.", hint="`./optimize up` starts the box.")
    for path in paths:
        label = "" if name else f"{path.stem} | "
        for line in last_lines(path, count):
            print(label + line)
    if follow:
        for path, line in _follow(paths):
            print(("" if name else f"{path.stem} | ") + line)
            sys.stdout.flush()


def _named(folder: Path, name: str) -> Path:
    path = folder / f"{name.replace('/', '-').removesuffix('.log')}.log"
    if path.parent != folder or not path.exists():
        known = ", ".join(sorted(found.stem for found in folder.glob("*.log"))) or "none yet"
        raise ApplianceError(f"There is no log named {name!r}.", hint=f"The logs in {folder}: {known}.")
    return path


def _follow(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    """New lines of the files as they come; a file that was emptied is read from its start."""
    offsets = {path: path.stat().st_size for path in paths}
    while True:
        for path, offset in offsets.items():
            size = path.stat().st_size
            start = 0 if size < offset else offset
            with path.open("rb") as file:
                file.seek(start)
                whole, newline, _ = file.read(size - start).rpartition(b"\n")
            offsets[path] = start + len(whole) + len(newline)
            if newline:
                yield from ((path, line) for line in whole.decode(errors="replace").split("\n"))
        time.sleep(0.3)
