"""What commands speak through: the box's own API, in this process, or another box's over HTTP."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
from django.conf import settings
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.utils.module_loading import import_string

from optimize_site.kernel.auth import LOCAL_SECRET
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import InvalidInput, OperationError, Problem, Unavailable

READ_SECONDS = 600.0


class WsgiTransport(httpx.BaseTransport):
    """Hands requests to the box's own WSGI application in this process; bodies are streamed both ways."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        started: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
            started["status"], started["headers"] = int(status.split()[0]), headers

        with _connections_kept():
            chunks = _application()(_environ(request), start_response)
        return httpx.Response(started["status"], headers=started["headers"], stream=_Chunks(chunks))


class _Chunks(httpx.SyncByteStream):
    def __init__(self, chunks: Any):
        self.chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks

    def close(self) -> None:
        close = getattr(self.chunks, "close", None)
        if close is not None:
            with _connections_kept():
                close()


class _Body:
    """A request's body as the file that WSGI reads."""

    def __init__(self, stream: Any):
        self.chunks, self.rest = iter(stream), b""

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self.rest) < size:
            chunk = next(self.chunks, None)
            if chunk is None:
                break
            self.rest += chunk
        size = len(self.rest) if size < 0 else size
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def readline(self, size: int = -1) -> bytes:
        raise NotImplementedError("the API never reads a body by lines")


@contextmanager
def _connections_kept() -> Iterator[None]:
    """A request in this process must not close the asker's database connection, perhaps in mid transaction."""
    receivers = [(signal, close_old_connections) for signal in (request_started, request_finished)]
    for signal, receiver in receivers:
        signal.disconnect(receiver)
    try:
        yield
    finally:
        for signal, receiver in receivers:
            signal.connect(receiver)


def _application() -> Any:
    return import_string(settings.WSGI_APPLICATION)


def _environ(request: httpx.Request) -> dict[str, Any]:
    environ = {
        "REQUEST_METHOD": request.method, "SCRIPT_NAME": "", "PATH_INFO": request.url.path.encode().decode("latin-1"),
        "QUERY_STRING": request.url.query.decode(), "SERVER_NAME": "localhost", "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.version": (1, 0), "wsgi.url_scheme": "http",
        "wsgi.input": _Body(request.stream), "wsgi.errors": None, "wsgi.multithread": False,
        "wsgi.multiprocess": False, "wsgi.run_once": True, "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_LENGTH": request.headers.get("content-length", ""),
        "CONTENT_TYPE": request.headers.get("content-type", ""),
    }
    environ |= {"HTTP_" + key.upper().replace("-", "_"): value for key, value in request.headers.items()
                if key not in {"content-length", "content-type"}}
    environ["HTTP_HOST"] = "localhost"
    return environ


class Client:
    """Calls routes and gives their JSON; a problem document becomes the OperationError it was."""

    def __init__(self, base_url: str, token: str, transport: httpx.BaseTransport | None = None):
        self.base_url = base_url
        self.is_here = isinstance(transport, WsgiTransport)
        """Whether it is this process that answers, so that nothing can happen to bytes on their way."""
        self.http = httpx.Client(base_url=base_url, transport=transport, headers={"Authorization": f"Bearer {token}"},
                                 timeout=httpx.Timeout(READ_SECONDS, connect=10))

    def get(self, path: str, **query: Any) -> Any:
        return self.call("GET", path, params=_stated(query))

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        return self.call("POST", path, json={} if body is None else body, params=_stated(query))

    def put(self, path: str, body: Any = None) -> Any:
        return self.call("PUT", path, json={} if body is None else body)

    def patch(self, path: str, body: Any = None) -> Any:
        return self.call("PATCH", path, json={} if body is None else body)

    def delete(self, path: str) -> Any:
        return self.call("DELETE", path)

    def send_file(self, path: str, file: Path | IO[bytes], **query: Any) -> Any:
        """POST a file's bytes as the body, streamed."""
        if isinstance(file, Path):
            with file.open("rb") as opened:
                return self.send_file(path, opened, **query)
        return self.send("POST", path, _read(file), _length(file), **query)

    def send(self, method: str, path: str, chunks: Iterator[bytes], length: int | None = None, **query: Any) -> Any:
        """Bytes as the body, streamed; with their `length`, so that a limit refuses before a byte is sent."""
        stated = {} if length is None else {"Content-Length": str(length)}
        return self.call(method, path, content=chunks, params=_stated(query),
                         headers={"Content-Type": "application/octet-stream", **stated})

    def download(self, path: str, into: IO[bytes], **query: Any) -> None:
        """Stream a response's bytes into a file."""
        with self.http.stream("GET", path, params=_stated(query)) as response:
            if response.status_code >= 400:
                response.read()
                raise _error(response)
            for chunk in response.iter_bytes():
                into.write(chunk)

    def call(self, method: str, path: str, **more: Any) -> Any:
        """One request. Raises OperationError as the box words it, Unavailable where nothing answers."""
        try:
            response = self.http.request(method, path, **more)
        except httpx.TransportError as error:
            raise Unavailable(f"The box at {self.base_url} does not answer: {error}.",
                              hint="Is it up? `./optimize status` tells for this machine.") from error
        if response.status_code >= 400:
            raise _error(response)
        return response.json() if response.content else None


def _stated(query: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in query.items() if not (value is None or value is False or value == "")}


def _read(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(1 << 20):
        yield chunk


def _length(file: IO[bytes]) -> int | None:
    """The body's length where the file knows it."""
    try:
        return os.fstat(file.fileno()).st_size - file.tell()
    except (OSError, AttributeError):
        return None


def _error(response: httpx.Response) -> OperationError:
    try:
        document = response.json()
        problems = [Problem(**problem) for problem in document.get("problems", [])]
    except (ValueError, TypeError, AttributeError):
        return Unavailable(f"The box answered {response.status_code} without saying why.",
                           hint="Its log says more: `./optimize logs commands`, or `./optimize logs web`.")
    known = {"type", "title", "status", "code", "detail", "hint", "problems"}
    error = OperationError(document.get("detail", ""), hint=document.get("hint", ""), problems=problems,
                           code=document.get("code", "error"),
                           **{key: value for key, value in document.items() if key not in known})
    error.status = response.status_code
    error.exit_code = {400: 2, 404: 4, 503: 1, 500: 1}.get(response.status_code, 3)
    return error


def local_client() -> Client:
    """The box on this machine, in this process, as the actor `local`."""
    return Client("http://localhost", LOCAL_SECRET, WsgiTransport())


def contexts_file() -> Path:
    """Where the logins of other boxes are kept (0600)."""
    return home() / "contexts.json"


def read_contexts() -> dict[str, dict[str, str]]:
    """Every known context: `{name: {"url", "token"}}`."""
    try:
        found: dict[str, dict[str, str]] = json.loads(contexts_file().read_text())
    except (OSError, ValueError):
        return {}
    return found


def client_for(context: str) -> Client:
    """The box a context names, or this machine's without one.

    The name comes from `--context`, OPTIMIZE_CONTEXT or AKKA_CONTEXT; a token in OPTIMIZE_ACCESS_TOKEN or
    AKKA_ACCESS_TOKEN wins over the stored one. Raises InvalidInput for an unknown context, listing the known.
    """
    name = context or os.environ.get("OPTIMIZE_CONTEXT") or os.environ.get("AKKA_CONTEXT") or ""
    if not name:
        return local_client()
    known = read_contexts()
    if name not in known:
        listed = ", ".join(sorted(known)) or "none yet"
        raise InvalidInput(f"There is no context {name!r}; known contexts: {listed}.", code="unknown_context",
                           hint="Add one with `./optimize contexts add NAME --url URL --token TOKEN`.")
    token = os.environ.get("OPTIMIZE_ACCESS_TOKEN") or os.environ.get("AKKA_ACCESS_TOKEN") or known[name]["token"]
    return Client(known[name]["url"], token)
