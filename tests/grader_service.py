"""A service that scores answers, for tests: it says what the test tells it to say, byte for byte."""

import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path

CERTIFICATE, KEY = (Path(__file__).parent / "tls" / name for name in ("server.pem", "server.key"))
Say = Callable[[dict, socket.socket], None]


def reply(body: bytes | dict, *headers: str, status: str = "200 OK") -> Say:
    """Says one whole reply."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", *headers, "", ""]).encode()
    return raw(head + data)


def raw(data: bytes) -> Say:
    """Says these bytes."""
    return lambda envelope, connection: connection.sendall(data)


class Service:
    """What was posted, in the order in which it came, and where it listens."""

    def __init__(self, say: Say, context: ssl.SSLContext | None):
        self.say, self.context, self.envelopes, self.heads = say, context, [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self.context is not None:
                connection = self.context.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as file:
                head = b"".join(iter(file.readline, b"\r\n")).decode()
                length = int(next(line for line in head.splitlines() if line.lower().startswith("content-length")
                                  ).split(":")[1])
                envelope = json.loads(file.read(length))
                self.heads.append(head)
                self.envelopes.append(envelope)
                self.say(envelope, connection)


@contextmanager
def serving(say: Say, *, tls: bool = False):
    """A service on the loopback address while the block runs."""
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE, KEY)
    service = Service(say, context)
    threading.Thread(target=service.serve, daemon=True).start()
    try:
        yield service
    finally:
        service.listener.shutdown(socket.SHUT_RDWR)
        service.listener.close()
