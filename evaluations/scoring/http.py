"""A service that somebody runs as a term: each answer is posted to it, and what comes back is the verdict.

Sent: `{"input": [messages], "output": "…", "outputCalls": […] | null, "expected": "…"}`. Taken back: a JSON object with
`score`, a number from 0 to 1, or `ok` or `passed`, true or false; `explanation` may stand beside it.

The service is asked at the addresses that its name had when the scorer was made. A redirect is not followed, a packed
reply is not unpacked, and neither a large nor a slow reply costs more than its cap.
"""

import io
import json
import math
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any

from evaluations.graders import Verdict
from evaluations.graders.json_values import is_deep
from evaluations.graders.verdict import unscored
from evaluations.scoring.addresses import (
    BadService,
    Resolve,
    Service,
    addresses_of,
    find_allowed,
    look_up,
    read_service,
)
from evaluations.scoring.headers import Sent, headers_of, sent_to
from evaluations.scoring.spec import Limits
from evaluations.scoring.terms import Item, NotReady

MAX_REPLY = 64 * 1024
MAX_NESTING = 50
AT_ONCE = 8
SCHEME = "http:"


class NoVerdict(Exception):
    """The service gave no score: the cause to count by, and a sentence."""

    def __init__(self, cause: str, reason: str):
        super().__init__(reason)
        self.cause, self.reason = cause, reason


class HttpScorer:
    """Posts each answer to one service, several at once."""

    def __init__(self, service: Service, addresses: Sequence[str], *, seconds: float, tls: ssl.SSLContext | None,
                 sent: Sent):
        self._service, self._addresses, self._seconds, self._tls = service, addresses, seconds, tls
        self._sent = sent
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="http-grader")

    def score(self, items: Sequence[Item]) -> Sequence[Verdict]:
        return list(self._pool.map(self._one, items))

    def _one(self, item: Item) -> Verdict:
        try:
            return _without(self._sent, self._post(json.dumps(envelope(item)).encode()))
        except NoVerdict as error:
            return unscored(error.cause, error.reason)

    def _post(self, body: bytes) -> bytes:
        """What the service replies. Raises NoVerdict."""
        line = Line(time.monotonic() + self._seconds)
        connection = HTTPConnection(self._service.host, self._service.port)
        try:
            line.open(self._addresses, self._service, self._tls)
            connection.sock = line  # type: ignore[assignment]
            connection.request("POST", self._service.path, body, {
                **self._sent.values, "Content-Type": "application/json", "Accept": "application/json",
                "Accept-Encoding": "identity", "Connection": "close", "User-Agent": "optimize"})
            return _reply(connection.getresponse())
        except TimeoutError as error:
            raise NoVerdict("timeout", f"The service took longer than {self._seconds:g} seconds.") from error
        except ssl.SSLError as error:
            raise NoVerdict("tls", f"The service's certificate is not accepted: {_said(error)}.") from error
        except OSError as error:
            raise NoVerdict("connection", f"The service cannot be reached: {_said(error)}.") from error
        except (HTTPException, ValueError) as error:
            raise NoVerdict("no_verdict", f"The reply is not whole or no HTTP: {type(error).__name__}.") from error
        finally:
            line.close()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class Line:
    """A connection on which everything together ends at a deadline, however slowly the other side drips."""

    def __init__(self, deadline: float):
        self._deadline = deadline
        self._socket: socket.socket | None = None

    def open(self, addresses: Sequence[str], service: Service, tls: ssl.SSLContext | None) -> None:
        """Connect to the first address that answers. Raises OSError; TimeoutError at the deadline."""
        plain = self._connect(addresses, service.port)
        self._socket = plain
        if tls is not None:
            plain.settimeout(self._left())
            self._socket = tls.wrap_socket(plain, server_hostname=service.host)

    def _connect(self, addresses: Sequence[str], port: int) -> socket.socket:
        last: OSError = OSError("it has no address")
        for address in addresses:
            try:
                return socket.create_connection((address, port), timeout=self._left())
            except TimeoutError:
                raise
            except OSError as error:
                last = error
        raise last

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def sendall(self, data: bytes) -> None:
        """Send all of it before the deadline."""
        self._timed().sendall(data)

    def receive(self, buffer: memoryview) -> int:
        """Some bytes before the deadline; 0 at the end."""
        return self._timed().recv_into(buffer)

    def _timed(self) -> socket.socket:
        if self._socket is None:
            raise OSError("the connection is closed")
        self._socket.settimeout(self._left())
        return self._socket

    def makefile(self, mode: str) -> io.BufferedReader:
        """The receiving side as a file."""
        return io.BufferedReader(_Received(self))

    def close(self) -> None:
        """Let the connection go, whatever was on it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Received(io.RawIOBase):
    """What comes over a line."""

    def __init__(self, line: Line):
        self._line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._line.receive(memoryview(buffer))


def _reply(response: HTTPResponse) -> bytes:
    """The reply's body. Raises NoVerdict for one that is no plain answer."""
    if 300 <= response.status < 400:
        raise NoVerdict("redirect", f"The service answers {response.status}: a redirect is not followed.")
    if not 200 <= response.status < 300:
        raise NoVerdict("no_verdict", f"The service answers {response.status}.")
    packed = response.getheader("Content-Encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise NoVerdict("no_verdict", f"The reply is packed ({packed[:20]}), though none was asked for.")
    body = response.read(MAX_REPLY + 1)
    if len(body) > MAX_REPLY:
        raise NoVerdict("too_large", f"The reply is larger than {MAX_REPLY} bytes.")
    return body


def envelope(item: Item) -> dict[str, Any]:
    """What is posted of one answer."""
    return {"input": list(item.prompt), "output": item.completion, "outputCalls": item.calls, "expected": item.expected}


def _without(sent: Sent, body: bytes) -> Verdict:
    """The verdict in a reply, with nothing in it of what the service was sent. Raises NoVerdict."""
    try:
        verdict = read_answer(body)
    except NoVerdict:
        return read_answer(sent.clean(body))
    return replace(verdict, explanation=sent.wipe(verdict.explanation))


def read_answer(body: bytes) -> Verdict:
    """The verdict in a reply. Raises NoVerdict."""
    try:
        found = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise NoVerdict("no_verdict", f"The reply is no JSON: {_shown(body)}.") from error
    if not isinstance(found, Mapping) or is_deep(found, MAX_NESTING):
        raise NoVerdict("no_verdict", f"The reply is no JSON object: {_shown(body)}.")
    explanation = found.get("explanation")
    said = explanation if isinstance(explanation, str) else ""
    score = _score(found)
    return Verdict(score, score == 1.0, explanation=said)


def _score(found: Mapping[str, Any]) -> float:
    if found.get("score") is not None:
        return _number(found["score"])
    said = [found[name] for name in ("ok", "passed") if found.get(name) is not None]
    if not said:
        raise NoVerdict("no_verdict", "The reply has neither score nor ok nor passed.")
    if not all(isinstance(one, bool) for one in said) or len(set(said)) > 1:
        raise NoVerdict("invalid_result", f"ok and passed must be true or false, and alike: {str(said)[:60]}.")
    return 1.0 if said[0] else 0.0


def _number(value: Any) -> float:
    """A score from 0 to 1. A number too large for a float is none."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    if not fits or not math.isfinite(value):
        raise NoVerdict("invalid_result", f"The score is {str(value)[:60]!r}; it must be a number from 0 to 1.")
    return float(value)


def _said(error: OSError) -> str:
    reason = getattr(error, "verify_message", "") or error.strerror or str(error) or type(error).__name__
    return str(reason).rstrip(".")[:200]


def _shown(body: bytes) -> str:
    return repr(body[:60].decode("utf-8", "replace"))


def make_http(text: str, limits: Limits, scratch: Path | None, *, resolve: Resolve = look_up) -> HttpScorer:
    """The scorer of `http:URL`; the one place where the name is looked up. Raises NotReady."""
    try:
        service = read_service(text.removeprefix(SCHEME))
        allowed = find_allowed(service, limits.allowed_hosts)
        headers = headers_of(service, limits.headers)
    except BadService as error:
        raise NotReady("refused_host", error.detail, error.hint) from error
    addresses = addresses_of(service, allowed, resolve=resolve)
    tls = _tls(limits) if service.scheme == "https" else None
    return HttpScorer(service, addresses, seconds=limits.seconds, tls=tls, sent=sent_to(service, addresses, headers))


def _tls(limits: Limits) -> ssl.SSLContext:
    """Certificates and names are checked; the operator may name who vouches for them."""
    try:
        return ssl.create_default_context(cafile=limits.ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise NotReady("bad_ca_file", f"The certificates in {limits.ca_file} cannot be read: {_said(error)}.",
                       "Correct trainer.graders.http-ca-file.") from error
