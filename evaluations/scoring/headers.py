"""Headers that prove to a service who asks: which service is sent which, and where its value is read.

The operator lists `HOST[:PORT] NAME=file:PATH` or `HOST[:PORT] NAME=env:VARIABLE`, with hosts as the list of hosts
writes them. The value itself is read by the process that asks, when it is made; nothing else ever holds it. What the
service says is cleaned of it, so that no service can have it kept or shown.
"""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from evaluations.scoring.addresses import Allowed, BadService, Service, read_allowed
from evaluations.scoring.terms import NotReady

SETTING = "trainer.graders.http-headers"
HINT = f"Write HOST NAME=file:PATH or HOST NAME=env:VARIABLE in {SETTING}, with a whole path."
ENTRY = re.compile(r"(?P<host>\S+) +(?P<name>[A-Za-z0-9][A-Za-z0-9_-]{0,79})=(?P<kind>file|env):(?P<place>\S.*)")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OWN = frozenset({"accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "host", "te",
                 "trailer", "transfer-encoding", "upgrade", "user-agent"})
MAX_VALUE, LEAST_CLEANED = 4096, 4
CLEANED = "***"


@dataclass(frozen=True)
class Header:
    """One entry of the list: whom it is sent to, its name, and the file or the variable that holds its value."""

    allowed: Allowed
    name: str
    kind: str
    place: str

    @property
    def shown(self) -> str:
        """Where its value is read."""
        return f"the file {self.place}" if self.kind == "file" else f"the variable {self.place}"


@dataclass(frozen=True)
class Sent:
    """The headers of one service with their values, which a representation never shows."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def secrets(self) -> list[str]:
        """What nobody is to read: each value, and its last word, the longest first."""
        return sorted({part for value in self.values.values() for part in (value, value.rpartition(" ")[2])
                       if len(part) >= LEAST_CLEANED}, key=len, reverse=True)

    def clean(self, body: bytes) -> bytes:
        """What the service said without any of the values, however it wrote them: to be shown, not to be read, since a
        value may be a word of any verdict, such as `true`."""
        return self.wipe(_plainly_written(body)).encode() if self.secrets else body

    def wipe(self, text: str) -> str:
        """A text without any of the values."""
        for secret in self.secrets:
            text = text.replace(json.dumps(secret)[1:-1], CLEANED).replace(secret, CLEANED)
        return text


def _plainly_written(body: bytes) -> str:
    """JSON with every character that can be written as itself so written; anything else as it is."""
    text = body.decode("utf-8", "replace")
    try:
        return json.dumps(json.loads(text))
    except (ValueError, RecursionError):
        return text


def headers_of(service: Service, entries: Sequence[str]) -> list[Header]:
    """The headers that are stated for a service. Raises BadService for an entry that says nothing, whosever it is."""
    read = [read_header(number, entry) for number, entry in enumerate(entries, 1)]
    found = [header for header in read if header.allowed.names(service)]
    names = [header.name.lower() for header in found]
    if len(set(names)) < len(names):
        raise BadService(f"{SETTING} states one header of {service.authority} twice.", "Leave one of the two out.")
    return found


def read_header(number: int, entry: str) -> Header:
    """An entry of the list, named by its number: it may hold a secret where none belongs. Raises BadService."""
    match = ENTRY.fullmatch(entry.strip())
    if match is None:
        raise BadService(f"Entry {number} of {SETTING} cannot be read.", HINT)
    host, name, kind, place = match["host"], match["name"], match["kind"], match["place"].strip()
    if name.lower() in OWN:
        raise BadService(f"Entry {number} of {SETTING} states {name}, which is not free to be stated.", HINT)
    is_place = Path(place).is_absolute() if kind == "file" else VARIABLE.fullmatch(place) is not None
    if not is_place or "=" in host:
        raise BadService(f"Entry {number} of {SETTING} names no whole path, no variable or no host.", HINT)
    return Header(read_allowed(host), name, kind, place)


def sent_to(service: Service, addresses: Sequence[str], headers: Sequence[Header],
            environment: Callable[[str], str | None] = os.environ.get) -> Sent:
    """The headers with their values, read now. Raises NotReady, whose words hold none of them."""
    is_public = any(ip_address(text.partition("%")[0]).is_global for text in addresses)
    if headers and service.scheme == "http" and is_public:
        raise NotReady("header_in_the_clear", f"The header {headers[0].name} would travel to {service.authority} in "
                       "the clear.", f"Ask it by https, or take its entry out of {SETTING}.")
    return Sent({header.name: _value(header, service, environment) for header in headers})


def _value(header: Header, service: Service, environment: Callable[[str], str | None]) -> str:
    try:
        text = environment(header.place) if header.kind == "env" else Path(header.place).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(header, service, getattr(error, "strerror", None) or "it is no text") from None
    value = (text or "").strip()
    if not value:
        raise _unreadable(header, service, "it is empty" if text is not None else "it is not set")
    if len(value) > MAX_VALUE or not value.isascii() or not value.isprintable():
        raise _unreadable(header, service, f"it is more than one line of at most {MAX_VALUE} ASCII characters")
    return value


def _unreadable(header: Header, service: Service, reason: str) -> NotReady:
    return NotReady("header_not_readable", f"The header {header.name} for {service.authority} cannot be read from "
                    f"{header.shown}: {reason}.", f"Mend it, or correct {SETTING}.")
