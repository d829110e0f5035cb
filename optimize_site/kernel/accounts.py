"""Operations on people's accounts and their tokens."""

import secrets
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q

from optimize_site.kernel import clock, events
from optimize_site.kernel.auth import ROLES, TOKEN_PREFIX, Actor, digest_of
from optimize_site.kernel.errors import Conflict, InvalidInput, NotFound, Refused
from optimize_site.kernel.models import Token, User

SHOWN_CHARACTERS = 12


def find_user(username: str) -> User:
    """The account of that name. Raises NotFound."""
    user = User.objects.filter(username=username).first()
    if user is None:
        raise NotFound(f"There is no user {username!r}.", hint="`./optimize users list` shows them.")
    return user


def _own_or_any(username: str, actor: Actor) -> User:
    """Somebody's own account, or to an admin anybody's. Raises Forbidden (also where there is none), NotFound."""
    if actor.user_id is None or not User.objects.filter(username=username, pk=actor.user_id).exists():
        actor.require("admin")
    return find_user(username)


@transaction.atomic
def create_user(username: str, role: str, *, password: str = "", actor: Actor) -> tuple[User, str]:
    """A new account, and its password (made where none was given), which is shown once."""
    actor.require("admin")
    check_role(role)
    _check_name(username, "a user", longest=150)
    password = password or secrets.token_urlsafe(12)
    user = User(username=username, role=role, is_staff=True, is_superuser=role == "admin")
    try:
        set_password_of(user, password)
    except IntegrityError as error:
        raise Conflict(f"There is a user {username!r} already.", code="name_taken") from error
    events.record("user", username, "user.created", actor=actor, data={"role": role})
    return user, password


def _check_name(name: str, whose: str, *, longest: int) -> None:
    """A name is a part of addresses: raises InvalidInput where it could not be."""
    if not name.strip() or len(name) > longest or not name.isprintable() or "/" in name:
        raise InvalidInput(f"{name[:80]!r} cannot be {whose}'s name.", code="invalid_name",
                           hint=f"A name is 1 to {longest} characters that can be seen, without a slash.")


def set_password_of(user: User, password: str) -> None:
    """Set and save a password. Raises Refused where it is too weak, saying why."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refused(" ".join(error.messages), code="weak_password") from error
    user.set_password(password)
    user.save()


@transaction.atomic
def reset_password(username: str, *, password: str = "", actor: Actor) -> str:
    """A new password for somebody; gives it. Needs admin, or oneself."""
    user = _own_or_any(username, actor)
    password = password or secrets.token_urlsafe(12)
    set_password_of(user, password)
    events.record("user", username, "user.password_reset", actor=actor)
    return password


@transaction.atomic
def set_role(username: str, role: str, *, actor: Actor) -> User:
    """Give somebody another role. The last admin keeps theirs."""
    actor.require("admin")
    check_role(role)
    user = find_user(username)
    _keep_an_admin(user, loses=role != "admin")
    user.role, user.is_superuser = role, role == "admin"
    user.save(update_fields=["role", "is_superuser"])
    events.record("user", username, "user.role_set", actor=actor, data={"role": role})
    return user


@transaction.atomic
def set_active(username: str, active: bool, *, actor: Actor) -> User:
    """Let somebody in, or shut them out together with their tokens."""
    actor.require("admin")
    user = find_user(username)
    _keep_an_admin(user, loses=not active)
    user.is_active = active
    user.save(update_fields=["is_active"])
    events.record("user", username, "user.enabled" if active else "user.disabled", actor=actor)
    return user


def _keep_an_admin(user: User, *, loses: bool) -> None:
    others = User.objects.filter(role="admin", is_active=True).exclude(pk=user.pk)
    if loses and user.role == "admin" and not others.exists():
        raise Refused(f"{user.username} is the only admin.", hint="Make somebody else an admin first.",
                      code="last_admin")


def check_role(role: str) -> None:
    """Raises InvalidInput for a word that is no role."""
    if role not in ROLES:
        raise InvalidInput(f"{role!r} is no role.", hint=f"One of: {', '.join(ROLES)}.", code="invalid_role")


@transaction.atomic
def issue_token(name: str, username: str, *, actor: Actor) -> tuple[Token, str]:
    """A new token for somebody, and its text, which is never shown again. Needs admin, or oneself."""
    _check_name(name, "a token", longest=80)
    # Two requests for one name take turns here.
    user = User.objects.select_for_update().get(pk=_own_or_any(username, actor).pk)
    if Token.objects.filter(name=name, user=user, revoked_at=None).exists():
        raise Conflict(f"{username} has a token {name!r} already.", code="name_taken",
                       hint="Revoke it, or choose another name.")
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = Token.objects.create(name=name, user=user, shown=text[:SHOWN_CHARACTERS], digest=digest_of(text),
                                 created_by=actor.name)
    events.record("token", str(token.pk), "token.created", actor=actor, data={"name": name, "user": username})
    return token, text


@transaction.atomic
def revoke_token(shown: str, *, actor: Actor) -> Token:
    """Revoke the live token with that name or visible beginning: one's own, or to an admin anybody's.

    Raises NotFound, and Conflict where several people have a token of that name.
    """
    live = Token.objects.filter(Q(shown=shown) | Q(name=shown), revoked_at=None).select_related("user")
    found = [token for token in live if actor.may("admin") or token.user_id == actor.user_id]
    if not found:
        raise NotFound(f"There is no live token {shown!r}.", hint="`./optimize tokens list` shows them.")
    if len(found) > 1:
        whose = ", ".join(sorted(f"{token.shown}… of {token.user.username}" for token in found))
        raise Conflict(f"{shown!r} means several tokens: {whose}.", hint="Name one by its visible beginning.",
                       code="ambiguous_name")
    token = found[0]
    Token.objects.filter(pk=token.pk).update(revoked_at=clock.now())
    events.record("token", str(token.pk), "token.revoked", actor=actor, data={"name": token.name})
    token.refresh_from_db()
    return token


def user_document(user: User) -> dict[str, Any]:
    """An account as every surface shows it."""
    return {"username": user.username, "role": user.role, "isActive": user.is_active, "lastLogin": user.last_login,
            "joined": user.date_joined}


def token_document(token: Token) -> dict[str, Any]:
    """A token as every surface shows it: never its text."""
    return {"name": token.name, "user": token.user.username, "shown": token.shown, "createdAt": token.created_at,
            "createdBy": token.created_by, "lastUsedAt": token.last_used_at, "revokedAt": token.revoked_at}
