"""Faults of files: a save's file with a bit flipped or its end gone, and a disk with no room for any other."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.chaos.scene import Scene, kill
from bench.chaos.schedule import Fault

BUSY_SECONDS = 20.0
"""For how long a job's next save is waited for."""
FULL = "the disk was full"
"""Stands among what was damaged: a run may have ended for it."""
DISK = "1g"
SAVED_FILES = ("adapter_model.safetensors", "adapter_config.json", "optimizer.pt", "scheduler.pt", "rng_state.pth",
               "trainer_state.json", "position.json", "weights.manifest.json", "state.manifest.json")  # fmt: skip


def damage(scene: Scene, fault: Fault, how: Callable[[Path, float], None]) -> bool:
    """Spoil a file of the newest save, and end the job, so that somebody will want to go on from it."""
    deadline = time.monotonic() + BUSY_SECONDS
    while (job := scene.of_attempt("job", "shepherd")) and not (save := _newest_save(scene)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    if not job or not save:
        return False
    kill(job)
    path = save / SAVED_FILES[int(fault.pick * len(SAVED_FILES))]
    if not path.exists():
        path = save / SAVED_FILES[0]
    path.chmod(0o600)
    how(path, fault.pick)
    scene.damaged.add(save.name)
    return True


def _newest_save(scene: Scene) -> Path | None:
    saves = (scene.attempt / "snapshots").glob("step-*") if scene.attempt is not None else ()
    return max(saves, key=lambda path: int(path.name[5:]), default=None)


def flip(path: Path, pick: float) -> None:
    """Another byte somewhere in the file."""
    data = bytearray(path.read_bytes())
    data[int(pick * len(data))] ^= 1 << int(pick * 1000) % 8
    path.write_bytes(data)


def shorten(path: Path, pick: float) -> None:
    """Only the first part of the file."""
    os.truncate(path, int(pick * path.stat().st_size))


def fill_disk(scene: Scene, fault: Fault) -> bool:
    """No room for anything in the attempts' folders for a while, where they lie on a disk of their own."""
    attempts = scene.box.home / "attempts"
    if not attempts.is_mount():
        return False
    scene.damaged.add(FULL)
    filler = attempts / "full"
    filler.mkdir()
    try:
        with (filler / "file").open("wb") as file:
            _take_all(file.fileno())
        time.sleep(fault.lasts * 2)
    finally:
        shutil.rmtree(filler)
    return True


def _take_all(descriptor: int) -> None:
    """Grow a file until nothing more fits, in ever smaller pieces: others write meanwhile."""
    taken, piece = 0, 1 << 28
    while piece >= mmap.PAGESIZE:
        try:
            os.posix_fallocate(descriptor, taken, piece)
            taken += piece
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            piece //= 2


@contextmanager
def small_disk(folder: Path) -> Iterator[str]:
    """Inside the block the folder is a small disk of its own, in memory, which can be filled. Gives why not where
    nothing may be mounted."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        yield mounted.stderr.strip() if mounted.returncode else ""
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=False)


@contextmanager
def small_disk_over(folder: Path) -> Iterator[str]:
    """The same over a folder that is in use: what it held is there inside the block, and what came to it afterwards.
    Nobody may write to it as the block begins and ends."""
    with _beside(folder) as kept, small_disk(folder) as why_not:
        if not why_not:
            _copy(kept, folder)
        yield why_not
        if not why_not:
            _copy(folder, kept)


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """The folder itself by another way, which leads to it also when something was mounted over its name."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _copy(source: Path, to: Path) -> None:
    """Lay what a folder holds into another, times and modes kept, since the newest attempt is found by its time.
    What has the same name there is replaced: a link cannot be laid over a link."""
    for entry in source.iterdir():
        if entry.is_dir():
            shutil.rmtree(to / entry.name, ignore_errors=True)
            shutil.copytree(entry, to / entry.name, symlinks=True)


OF_A_JOB: dict[str, Callable[[Scene, Fault], bool]] = {
    "flip a bit": partial(damage, how=flip),
    "cut a file short": partial(damage, how=shorten),
}
OF_THE_BOX: dict[str, Callable[[Scene, Fault], bool]] = {
    "fill the disk": fill_disk,
}
