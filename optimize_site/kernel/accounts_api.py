"""Routes of accounts and tokens."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from optimize_site.kernel import accounts
from optimize_site.kernel.api import Body, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.models import Token, User

router = Router(tags=["accounts"])


class NewUser(Body):
    username: str
    role: str = "operator"
    password: str = ""


class Password(Body):
    password: str = ""


class Role(Body):
    role: str


class NewToken(Body):
    name: str
    user: str = ""


@router.get("/users")
def list_users(request: HttpRequest, limit: int = 50, offset: int = 0) -> dict[str, Any]:
    """Every account."""
    actor_of(request).require("admin")
    return page(User.objects.order_by("username"), "users", accounts.user_document, limit=limit, offset=offset)


@router.post("/users", response={201: dict})
def create_user(request: HttpRequest, payload: NewUser) -> tuple[int, dict[str, Any]]:
    """A new account; its password is in the answer, once."""
    user, password = accounts.create_user(payload.username, payload.role, password=payload.password,
                                          actor=actor_of(request))
    return 201, accounts.user_document(user) | {"password": password}


@router.post("/users/{username}/reset-password")
def reset_password(request: HttpRequest, username: str, payload: Password) -> dict[str, Any]:
    """A new password, in the answer, once."""
    return {"username": username,
            "password": accounts.reset_password(username, password=payload.password, actor=actor_of(request))}


@router.post("/users/{username}/role")
def set_role(request: HttpRequest, username: str, payload: Role) -> dict[str, Any]:
    """Give somebody another role."""
    return accounts.user_document(accounts.set_role(username, payload.role, actor=actor_of(request)))


@router.post("/users/{username}/disable")
def disable(request: HttpRequest, username: str) -> dict[str, Any]:
    """Shut somebody out."""
    return accounts.user_document(accounts.set_active(username, False, actor=actor_of(request)))


@router.post("/users/{username}/enable")
def enable(request: HttpRequest, username: str) -> dict[str, Any]:
    """Let somebody in again."""
    return accounts.user_document(accounts.set_active(username, True, actor=actor_of(request)))


@router.get("/tokens")
def list_tokens(request: HttpRequest, limit: int = 50, offset: int = 0) -> dict[str, Any]:
    """An admin sees every token, others their own."""
    actor = actor_of(request)
    tokens = Token.objects.select_related("user").order_by("-created_at")
    if not actor.may("admin"):
        tokens = tokens.filter(user__username=actor.name)
    return page(tokens, "tokens", accounts.token_document, limit=limit, offset=offset)


@router.post("/tokens", response={201: dict})
def create_token(request: HttpRequest, payload: NewToken) -> tuple[int, dict[str, Any]]:
    """A new bearer token; its text is in the answer, once."""
    actor = actor_of(request)
    token, text = accounts.issue_token(payload.name, payload.user or actor.name, actor=actor)
    return 201, accounts.token_document(token) | {"token": text}


@router.post("/tokens/{shown}/revoke")
def revoke_token(request: HttpRequest, shown: str) -> dict[str, Any]:
    """End a token, by its name or visible beginning."""
    return accounts.token_document(accounts.revoke_token(shown, actor=actor_of(request)))
