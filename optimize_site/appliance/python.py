"""How the box starts its own Python programs: the same interpreter, the checkout first on the path."""

import os
import subprocess
import sys

from optimize_site.appliance.places import CHECKOUT, Places


def environment(places: Places) -> dict[str, str]:
    """The variables that every process of the box gets."""
    return {
        "OPTIMIZE_HOME": str(places.home),
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": "optimize_site.settings",
    }


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module. -P keeps the working directory off the path."""
    return [sys.executable, "-P", "-m", name, *arguments]


def manage(*arguments: str) -> list[str]:
    """The command that runs a management command."""
    return [sys.executable, str(CHECKOUT / "manage.py"), *arguments]


def run(places: Places, command: list[str], *, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a short program of ours to its end."""
    return subprocess.run(
        command, env={**os.environ, **environment(places)}, cwd=CHECKOUT, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=seconds,
    )  # fmt: skip
