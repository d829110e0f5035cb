"""The address of the web: read from the settings, bound once, kept by the supervisor."""

import os
import socket
from dataclasses import dataclass

from optimize_site.appliance.errors import ApplianceError
from optimize_site.kernel.conf import setting

BIND_VARIABLE = "OPTIMIZE_BIND"
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- compared with, never bound by default
LOOPBACK = ("127.", "::1", "localhost")


@dataclass(frozen=True)
class Address:
    """A host and a port to listen on; port 0 is any free one."""

    host: str
    port: int

    @classmethod
    def chosen(cls) -> "Address":
        """What OPTIMIZE_BIND says, else the setting `web.bind`."""
        return cls.parse(os.environ.get(BIND_VARIABLE) or setting("web.bind"))

    @classmethod
    def parse(cls, text: str) -> "Address":
        """`HOST:PORT`, with an IPv6 address in brackets; a bare port means loopback."""
        host, _, port = text.rpartition(":")
        if not port.isdigit() or int(port) > 65535:
            raise ApplianceError(
                f"{text!r} is no address to listen on.",
                hint=f"Write {BIND_VARIABLE} as HOST:PORT, as in 127.0.0.1:9001.",
            )
        return cls(host.strip("[]") or "127.0.0.1", int(port))

    @property
    def url(self) -> str:
        """The address to open in a browser on this machine."""
        host = EVERYWHERE.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host.startswith(LOOPBACK)


def listen(address: Address) -> tuple[socket.socket, Address]:
    """A listening socket and the address it got."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
        listener.listen(256)
    except OSError as error:
        listener.close()
        raise ApplianceError(
            f"The web cannot listen on {address.host}:{address.port}: {error.strerror}.",
            hint=f"Stop what uses that port, or choose another: {BIND_VARIABLE}=127.0.0.1:9002 ./optimize up",
        ) from error
    return listener, Address(address.host, listener.getsockname()[1])
