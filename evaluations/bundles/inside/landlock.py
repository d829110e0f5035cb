"""Landlock: files below a few paths can be read, nothing can be written, no TCP port, no signal to the outside."""

import ctypes
import os
import stat
from collections.abc import Sequence

from .kernel import NoWall, syscall

CREATE, ADD_RULE, RESTRICT, VERSION = 444, 445, 446, 1
BENEATH = 1
READ_FILE, READ_FOLDER = 1 << 2, 1 << 3
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""By version, how many of the rights over files there are; later ones have no more."""
NETWORK_SINCE, SCOPES_SINCE = 4, 6


class _Rules(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


def version() -> int:
    """Which Landlock the kernel has. Raises OSError where it has none."""
    return syscall("landlock", CREATE, 0, 0, VERSION)


def restrict(visible: Sequence[str]) -> None:
    """Hold this process, and every thread it starts, to reading what lies beneath `visible`. Raises NoWall."""
    try:
        handle = _rules(version())
        for path in visible:
            if os.path.exists(path):  # noqa: PTH110 - os alone is loaded here
                _allow(handle, path)
        syscall("landlock_restrict_self", RESTRICT, handle, 0)
        os.close(handle)
    except OSError as error:
        raise NoWall("landlock", str(error)) from error


def _rules(number: int) -> int:
    rights = (1 << FILE_RIGHTS.get(number, FILE_RIGHTS[5])) - 1
    rules = _Rules(rights, 3 if number >= NETWORK_SINCE else 0, 3 if number >= SCOPES_SINCE else 0)
    size = 24 if number >= SCOPES_SINCE else 16 if number >= NETWORK_SINCE else 8
    return syscall("landlock_create_ruleset", CREATE, ctypes.byref(rules), size, 0)


def _allow(handle: int, path: str) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        rule = _Beneath(READ_FILE | READ_FOLDER if is_folder else READ_FILE, place)
        syscall("landlock_add_rule", ADD_RULE, handle, BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(place)
