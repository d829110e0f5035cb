"""Which services may be asked: what an `http:URL` grader names, what the operator allows, where a name may lead. Pure,
but for the one look-up of a name.

The operator lists `HOST`, `HOST:PORT`, and for a name that leads to addresses of a private network
`HOST[:PORT]=ADDRESS` or `=NETWORK`. A host without a port is allowed its scheme's own. Addresses that are nobody's
service (unspecified, link-local, multicast, reserved) are never asked.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from urllib.parse import urlsplit

from evaluations.scoring.terms import NotReady

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Sequence[str]]
"""Takes a host and a port; gives its addresses. Raises OSError."""

PORTS = {"http": 80, "https": 443}
LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
NETLOC = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@/?#]+)(:[0-9]*)?")
NUMBERLIKE = re.compile(r"(0x[0-9a-f]*|[0-9]+)")
MAX_URL = 1900
LOOK_UP_SECONDS = 10.0
"""The longest that the look-up of a name is waited for."""
# Addresses of one family that carry an address of the other: where they lead cannot be told from them.
CARRIERS = tuple(ipaddress.ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32",
                                                         "::/96"))
THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
HINT = "Write http:https://HOST[:PORT]/PATH."


class BadService(ValueError):
    """A URL or an entry of the list of hosts that cannot be used, and what to write."""

    def __init__(self, detail: str, hint: str = HINT):
        super().__init__(detail)
        self.detail, self.hint = detail, hint


@dataclass(frozen=True)
class Service:
    """Where answers are sent: host in small letters without a final dot, addresses in their one form."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port, as the list of hosts writes them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def read_service(url: str) -> Service:
    """The service that a URL names. Raises BadService."""
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise BadService(f"The URL {url[:80]!r} must be at most {MAX_URL} printable ASCII characters without spaces.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadService(f"The URL {url[:80]!r} does not parse: {error}.") from error
    scheme = parts.scheme.lower()
    if scheme not in PORTS:
        raise BadService(f"The URL {url[:80]!r} is no http or https URL.")
    if not NETLOC.fullmatch(parts.netloc) or parts.fragment or port == 0:
        raise BadService(f"The URL {url[:80]!r} names no host, or more than host, port and path.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Service(scheme, _host(parts.hostname or ""), port or PORTS[scheme], path)


def _host(text: str) -> str:
    """The one form of a host. A number that is no whole address is refused: what it means depends on who reads it."""
    host = text.lower().removesuffix(".")
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    labels = host.split(".")
    if not host or len(host) > 253 or not all(LABEL.fullmatch(label) for label in labels):
        raise BadService(f"{text[:80]!r} is no host.")
    if NUMBERLIKE.fullmatch(labels[-1]):
        raise BadService(f"{text[:80]!r} is neither a name nor an address written as four numbers.")
    return host


@dataclass(frozen=True)
class Allowed:
    """One entry of the operator's list; `port` is None for the scheme's own, `network` None for public addresses."""

    host: str
    port: int | None = None
    network: Network | None = None

    def names(self, service: Service) -> bool:
        """Whether the entry allows the service, by its name."""
        return self.host == service.host and service.port == (self.port or PORTS[service.scheme])


def read_allowed(text: str) -> Allowed:
    """An entry of the list. Raises BadService."""
    place, equals, where = text.strip().partition("=")
    hint = "Write HOST, HOST:PORT, or HOST:PORT=ADDRESS for a name that leads into a private network."
    try:
        parts = urlsplit(f"//{place}")
        network = ipaddress.ip_network(where, strict=False) if equals else None
        host, port = _host(parts.hostname or ""), parts.port
    except (ValueError, BadService) as error:
        raise BadService(f"The allowed host {text[:80]!r} cannot be read: {str(error).rstrip('.')}.", hint) from error
    if not NETLOC.fullmatch(place) or port == 0:
        raise BadService(f"The allowed host {text[:80]!r} is more than a host and a port.", hint)
    return Allowed(host, port, network)


def find_allowed(service: Service, hosts: Sequence[str]) -> Allowed:
    """The entry that allows the service. Raises BadService where there is none."""
    for entry in hosts:
        allowed = read_allowed(entry)
        if allowed.names(service):
            return allowed
    listed = ", ".join(hosts) if hosts else "none"
    raise BadService(f"The host {service.authority} may not be asked; the operator allows {listed}.",
                     f"Add {service.authority} to trainer.graders.http-hosts in the box's settings.")


def look_up(host: str, port: int, *, seconds: float = LOOK_UP_SECONDS) -> Sequence[str]:
    """The addresses that a name has now. Raises OSError; TimeoutError where none came in time.

    The system's resolver takes no limit and cannot be stopped: a thread asks it, and is left behind.
    """
    answers: SimpleQueue[list[str] | OSError] = SimpleQueue()
    Thread(target=_ask, args=(host, port, answers), daemon=True).start()
    try:
        found = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"its name server gave no answer within {seconds:g} seconds") from None
    if isinstance(found, OSError):
        raise found
    return found


def _ask(host: str, port: int, answers: "SimpleQueue[list[str] | OSError]") -> None:
    try:
        answers.put([str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)])
    except OSError as error:
        answers.put(error)
    except UnicodeError as error:
        answers.put(OSError(str(error)))


def addresses_of(service: Service, allowed: Allowed, *, resolve: Resolve = look_up) -> list[str]:
    """Where the service is asked, from one look-up: every address the name has must be allowed. Raises NotReady."""
    try:
        found = list(dict.fromkeys(resolve(service.host, service.port)))
    except OSError as error:
        raise NotReady("connection", f"The host {service.host} has no address: {error.strerror or error}.",
                       "See that the box can resolve it.") from error
    if not found:
        raise NotReady("connection", f"The host {service.host} has no address.", "See that the box can resolve it.")
    for text in found:
        _check_address(text, service, allowed)
    return found


def _check_address(text: str, service: Service, allowed: Allowed) -> None:
    address = ipaddress.ip_address(text.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if _is_nobodys(address):
        raise NotReady("refused_host", f"The host {service.host} leads to {text}, which is no service's address.",
                       "Name another host.")
    reason = _refused(address, service, allowed)
    if reason:
        raise NotReady("refused_host", f"The host {service.host} leads to {text}, {reason}.", "If it shall be asked "
                       f"there, write {service.authority}={text} in trainer.graders.http-hosts.")


def _is_nobodys(address: Address) -> bool:
    """Whether no service can be meant by it: this host's own placeholder, a neighbour's, a group's, one of no use."""
    if address.is_unspecified or address.is_link_local or address.is_multicast:
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_reserved or address in THIS_NETWORK
    return not address.is_loopback and any(address in network for network in CARRIERS)


def _refused(address: Address, service: Service, allowed: Allowed) -> str:
    """Why the address is not asked; empty where it is: as it was written, in the network that was stated, or public."""
    if allowed.network is not None:
        return "" if address in allowed.network else f"which is not in {allowed.network}"
    return "" if str(address) == service.host or address.is_global else "an address of a private network"
