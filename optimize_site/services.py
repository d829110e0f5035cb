"""Where Postgres, Redis and the web answer, as the supervisor wrote it down or the environment says."""

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit


def known_services(state: Path) -> dict[str, str]:
    """What the running box wrote into `run/services.json`; empty where it never ran."""
    try:
        found: dict[str, str] = json.loads((state / "run" / "services.json").read_text())
    except (OSError, ValueError):
        return {}
    return found


def database_url(state: Path) -> str:
    """DATABASE_URL, else the embedded Postgres, else an address at which nothing answers."""
    return os.environ.get("DATABASE_URL") or known_services(state).get("database_url", "postgresql:///optimize")


def database_settings(state: Path) -> dict[str, Any]:
    """Django's settings for a `postgresql://user:password@host:port/name?option=value` address."""
    parts = urlsplit(database_url(state))
    options = dict(parse_qsl(parts.query))
    host = options.pop("host", "") or unquote(parts.hostname or "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/") or "optimize",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or options.pop("port", "")),
        "OPTIONS": {"connect_timeout": 5, **options},
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }


def redis_url(state: Path) -> str:
    """REDIS_URL, else the embedded Valkey."""
    stated = os.environ.get("REDIS_URL") or known_services(state).get("redis_url", "redis://127.0.0.1:6379/0")
    return stated.replace("unix://", "redis+socket://", 1)


def web_url(state: Path) -> str:
    """The address of the box's pages."""
    return os.environ.get("OPTIMIZE_URL") or known_services(state).get("web_url", "http://127.0.0.1:9001")


def secret_key(state: Path) -> str:
    """Django's secret key: OPTIMIZE_SECRET_KEY, else the state folder's own, made once."""
    stated = os.environ.get("OPTIMIZE_SECRET_KEY")
    if stated:
        return stated
    path = state / "secret_key"
    try:
        return path.read_text().strip()
    except OSError:
        return _make_secret(path)


def _make_secret(path: Path) -> str:
    """A new key, kept where the state folder can be written; a process that cannot write one has its own."""
    key = secrets.token_urlsafe(48)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(key)
    except FileExistsError:
        return path.read_text().strip()
    except OSError:
        return key
    return key


def make_folder(path: Path) -> Path:
    """The folder, made if this user may; a reader of somebody else's state folder takes it as it is."""
    with contextlib.suppress(OSError):
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path
