"""Puts the walls up around this process, then knocks on each: a wall that gives way is no wall."""

import os
import resource
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from . import landlock, namespaces, seccomp
from .kernel import LIBC, NoWall, prctl

DIE_WITH_PARENT, NOT_TRACEABLE, DROP_FROM_BOUNDS = 1, 4, 24
CAPABILITIES = 64
OPEN_FILES, THREADS = 64, 256


def confine(configuration: Mapping[str, Any]) -> None:
    """Put up the walls that `configuration` names, and the limits, which always hold. Raises NoWall."""
    walls: Sequence[str] = configuration["walls"]
    if "namespaces" in walls:
        namespaces.enter(configuration["visible"], configuration["root"])
    _limit(configuration)
    _give_up_power()
    _die_with_parent(configuration["parent"])
    if "landlock" in walls:
        landlock.restrict(configuration["visible"])
    if "seccomp" in walls:
        seccomp.install()
    knock(walls, configuration)


def _die_with_parent(parent: int) -> None:
    prctl("die with parent", DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _limit(configuration: Mapping[str, Any]) -> None:
    """Memory, processor time, no file to grow, few descriptors, few threads, no core."""
    wanted = {resource.RLIMIT_AS: int(configuration["memoryBytes"]),
              resource.RLIMIT_CPU: int(configuration["cpuSeconds"]), resource.RLIMIT_FSIZE: 0,
              resource.RLIMIT_NOFILE: OPEN_FILES, resource.RLIMIT_CORE: 0, resource.RLIMIT_MEMLOCK: 0,
              resource.RLIMIT_MSGQUEUE: 0, resource.RLIMIT_NPROC: THREADS}
    for name, most in wanted.items():
        hard = resource.getrlimit(name)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (value, value))


def _give_up_power() -> None:
    """Whatever this process could do beyond its files it can do no more; nor can another of its user look into it."""
    for number in range(CAPABILITIES):
        LIBC.prctl(DROP_FROM_BOUNDS, number, 0, 0, 0)
    header, nothing = (0x20080522).to_bytes(4, "little") + bytes(4), bytes(24)
    LIBC.capset(header, nothing)
    prctl("no_new_privs", seccomp.NO_NEW_PRIVILEGES, 1)
    prctl("not traceable", NOT_TRACEABLE, 0)


def knock(walls: Sequence[str], configuration: Mapping[str, Any]) -> None:
    """Try what each wall forbids. Raises NoWall where something of it can be done."""
    if "seccomp" in walls:
        _must_fail("seccomp", "a socket was opened", lambda: socket.socket().close())
        _must_fail("seccomp", "another process could be sent a signal", lambda: os.kill(configuration["parent"], 0))
        _must_fail("seccomp", "a process was started", _fork)
        _must_fail("seccomp", "a program could be started", _execute)
    for wall in ("namespaces", "landlock"):
        if wall in walls:
            _must_fail(wall, "a file outside was read", lambda: os.close(os.open("/etc/passwd", os.O_RDONLY)))
            _must_fail(wall, "a folder outside was listed", lambda: os.scandir("/proc/self").close())
            _must_fail(wall, "a file was made", lambda: _create(configuration["folder"]))


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _execute() -> None:
    """A program that is not there: where it is looked for, one that is there would be started."""
    with suppress(FileNotFoundError):
        os.execv("/nowhere/at/all", ["nothing"])  # noqa: S606 - it is not there


def _create(folder: str) -> None:
    os.close(os.open(f"{folder}/.knock", os.O_WRONLY | os.O_CREAT, 0o600))


def _must_fail(wall: str, deed: str, attempt: Callable[[], object]) -> None:
    try:
        attempt()
    except OSError:
        return
    raise NoWall(wall, f"it does not hold: {deed}")
