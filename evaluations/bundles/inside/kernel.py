"""Calls of the kernel that Python has no name for."""

import ctypes
import os
import platform

LIBC = ctypes.CDLL(None, use_errno=True)
MACHINE = platform.machine()


class NoWall(Exception):
    """A wall cannot be put up here: which one, and why."""

    def __init__(self, wall: str, reason: str):
        super().__init__(reason)
        self.wall, self.reason = wall, reason


def checked(what: str, result: int) -> int:
    """The result of a call. Raises OSError where it is -1."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def syscall(what: str, number: int, *values: object) -> int:
    """Make a system call by its number. Raises OSError."""
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in values]
    return checked(what, LIBC.syscall(ctypes.c_long(number), *words))


def prctl(what: str, option: int, value: int = 0) -> None:
    """Raises OSError."""
    checked(what, LIBC.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)))
