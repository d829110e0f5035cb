"""A socket on this machine's file system, for the box's own processes and nobody else."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def listen(path: Path) -> socket.socket:
    """A socket that only this user may open, bound through its folder: a socket's own path has a short limit."""
    path.unlink(missing_ok=True)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    mask = os.umask(0o177)
    try:
        server.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.umask(mask)
        os.close(folder)
    server.listen(8)
    return server
