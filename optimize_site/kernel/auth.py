"""Who asks: actors, roles, and whom a token stands for. Operations call `actor.require`; surfaces find the actor."""

import hashlib
import secrets
from dataclasses import dataclass

from django.http import HttpRequest

from optimize_site.kernel import clock
from optimize_site.kernel.errors import Forbidden, NotAuthenticated

ROLES = ("viewer", "operator", "admin")
TOKEN_PREFIX = "opt_"  # noqa: S105 - the public beginning of every token, so that a leaked one can be recognised
STRANGER = "This needs a signed-in user or a token."
STRANGER_HINT = "Send `Authorization: Bearer TOKEN`; make one with `./optimize tokens create`."
# Known only inside this process: how a command's in-process client proves that it is the local actor.
LOCAL_SECRET = secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Actor:
    """Somebody who may ask for something; `name` is what the audit trail shows."""

    name: str
    role: str
    user_id: int | None = None

    def may(self, role: str) -> bool:
        """Whether this actor's role is at least `role`."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def require(self, role: str) -> None:
        """Raises Forbidden unless the actor's role is at least `role`."""
        if not self.may(role):
            raise Forbidden(f"This needs the role {role}; {self.name} is a {self.role}.",
                            hint="Ask an admin for the role, or use another account.")


SYSTEM = Actor("system", "admin")
LOCAL = Actor("local", "admin")


def actor_of(request: HttpRequest) -> Actor:
    """The actor of an authenticated request. Raises NotAuthenticated for a stranger."""
    known: Actor | None = getattr(request, "actor", None) or getattr(request, "auth", None)
    if isinstance(known, Actor):
        return known
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        return Actor(user.get_username(), user.role, user.pk)
    raise NotAuthenticated(STRANGER, hint=STRANGER_HINT)


def digest_of(token: str) -> str:
    """What is kept of a token: SHA-256, enough for 256 random bits."""
    return hashlib.sha256(token.encode()).hexdigest()


def actor_of_token(text: str) -> Actor | None:
    """The actor a bearer token stands for, or None where it is unknown, revoked or its user is inactive."""
    from optimize_site.kernel.models import Token

    if secrets.compare_digest(text, LOCAL_SECRET):
        return LOCAL
    token = Token.objects.select_related("user").filter(digest=digest_of(text), revoked_at=None).first()
    if token is None or not token.user.is_active:
        return None
    Token.objects.filter(pk=token.pk).update(last_used_at=clock.now())
    return Actor(token.user.username, token.user.role, token.user_id)
