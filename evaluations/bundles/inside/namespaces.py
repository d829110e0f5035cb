"""A file system that holds only what is meant to be read, a network without a wire, a user without power outside.

Root and an ordinary user go the same way, by a namespace of users; where that is forbidden root goes without.
"""

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from .kernel import LIBC, MACHINE, NoWall, checked, syscall

NEW_MOUNTS, NEW_HOST_NAME, NEW_IPC, NEW_USERS, NEW_NETWORK = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
BIND, RECURSIVE, PRIVATE, NO_SUID, NO_DEV = 0x1000, 0x4000, 0x40000, 0x2, 0x4
DETACH = 2
MOUNT_SETATTR, PIVOT_ROOT = 442, {"x86_64": 155, "aarch64": 41}
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
ATTRIBUTES = 0x1 | 0x2 | 0x4
"""Read-only, no set-user-ID, no devices."""


class _Attributes(ctypes.Structure):
    _fields_ = [("set", ctypes.c_uint64), ("clear", ctypes.c_uint64), ("propagation", ctypes.c_uint64),
                ("users", ctypes.c_uint64)]


def enter(visible: Sequence[str], root: str) -> None:
    """See `visible` and nothing else, read-only, from an empty folder `root` made the top. Raises NoWall."""
    try:
        _unshare()
        checked("mount /", LIBC.mount(None, b"/", None, RECURSIVE | PRIVATE, None))
        checked("mount", LIBC.mount(b"tmpfs", root.encode(), b"tmpfs", NO_SUID | NO_DEV, b"size=256k,mode=755"))
        for path in visible:
            _show(path, root)
        _freeze(root)
        _become(root)
    except OSError as error:
        raise NoWall("namespaces", str(error)) from error


def _unshare() -> None:
    others = NEW_MOUNTS | NEW_NETWORK | NEW_IPC | NEW_HOST_NAME
    user, group = os.geteuid(), os.getegid()
    if LIBC.unshare(NEW_USERS | others) == -1:
        checked("unshare", LIBC.unshare(others))
        return
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _show(path: str, root: str) -> None:
    """Put a file, a folder, or a link as it is, at the same path below the root."""
    place = Path(root + path)
    place.parent.mkdir(parents=True, exist_ok=True)
    if Path(path).is_symlink():
        place.symlink_to(Path(path).readlink())
        return
    if Path(path).is_dir():
        place.mkdir(exist_ok=True)
    else:
        place.touch()
    checked(f"mount {path}", LIBC.mount(path.encode(), str(place).encode(), None, BIND | RECURSIVE, None))


def _freeze(root: str) -> None:
    wanted = _Attributes(set=ATTRIBUTES)
    syscall("mount_setattr", MOUNT_SETATTR, AT_FDCWD, ctypes.c_char_p(root.encode()), AT_RECURSIVE,
            ctypes.byref(wanted), ctypes.sizeof(wanted))


def _become(root: str) -> None:
    if MACHINE not in PIVOT_ROOT:
        raise OSError(0, f"the calls of {MACHINE} are not known here")
    os.chdir(root)
    here = ctypes.c_char_p(b".")
    syscall("pivot_root", PIVOT_ROOT[MACHINE], here, here)
    checked("umount2", LIBC.umount2(b".", DETACH))
    os.chdir("/")
