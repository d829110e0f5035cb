"""The embedded Valkey: a doorbell on a socket. It keeps nothing on disk, so nothing of it can be broken."""

import contextlib
import os
import socket

from optimize_site.appliance.binaries import find_valkey
from optimize_site.appliance.places import Places


class Valkey:
    """The server behind Celery. Losing what it holds costs one round of the reconciler."""

    def __init__(self, places: Places) -> None:
        self.socket = places.sockets / "valkey.sock"
        self._folder = places.run
        self._program = find_valkey()

    def command(self) -> list[str]:
        """The server as a foreground process."""
        reach = ("--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700")
        keep_nothing = ("--save", "", "--appendonly", "no", "--dir", str(self._folder))
        return [self._program, *reach, *keep_nothing, "--hz", "2", "--daemonize", "no"]

    def is_ready(self) -> bool:
        """Whether it answers a ping."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            client.connect(os.fspath(self.socket))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
        return False

    def url(self) -> str:
        """How Celery reaches it."""
        return f"redis+socket://{self.socket}"
