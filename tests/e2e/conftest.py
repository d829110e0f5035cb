"""A real box for the end-to-end tests: `./optimize up` in a scratch state folder on a free port."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from optimize_site.appliance.places import CHECKOUT
from optimize_site.processes import Identity

START_SECONDS = 180


class Box:
    """A box of its own for a test module."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.home = home
        self.password = ""
        self.variables = variables

    @property
    def url(self) -> str:
        """Where the web answers."""
        return str(self.services()["web_url"])

    def run(self, *words: str, timeout: float = START_SECONDS, **options: Any) -> subprocess.CompletedProcess[str]:
        """`./optimize WORDS …` on this box, as a person would run it from another folder."""
        dropped = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "OPTIMIZE_RING_DOORBELLS",
                   "OPTIMIZE_STATIC_STORAGE", "OPTIMIZE_SECRET_KEY", "PYTHONPATH")  # fmt: skip
        env = {name: value for name, value in os.environ.items() if name not in dropped}
        env |= {"OPTIMIZE_HOME": str(self.home), "OPTIMIZE_BIND": "127.0.0.1:0", **self.variables}
        return subprocess.run(
            [str(CHECKOUT / "optimize"), *words], capture_output=True, text=True, timeout=timeout, cwd="/", env=env,
            check=False, stdin=subprocess.DEVNULL, **options,
        )  # fmt: skip

    def up(self) -> None:
        """Start it and wait until it is ready; the password of a first start is kept."""
        done = self.run("up", "--detach")
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        if told := re.search(r"with the password (\S+)", done.stdout):
            self.password = told.group(1)

    def down(self) -> None:
        """Stop it."""
        done = self.run("down")
        assert done.returncode == 0, done.stdout + done.stderr

    def status(self) -> dict[str, Any]:
        """What the supervisor says of itself."""
        found: dict[str, Any] = json.loads((self.home / "status.json").read_text())
        return found

    def services(self) -> dict[str, str]:
        """The addresses that the supervisor wrote down."""
        found: dict[str, str] = json.loads((self.home / "run" / "services.json").read_text())
        return found

    def service(self, name: str) -> dict[str, Any]:
        """One service of the status."""
        return next(service for service in self.status()["services"] if service["name"] == name)

    def process(self, name: str) -> Identity:
        """The process of one service, or the supervisor's."""
        found = self.status()["supervisor"] if name == "supervisor" else self.service(name)
        return Identity(found["pid"], found["started"])

    def is_ready(self) -> bool:
        """Whether every service is ready and the web answers."""
        status = self.status()
        ready = all(service["state"] == "ready" for service in status["services"])
        return status["phase"] == "ready" and ready and self.answers()

    def answers(self) -> bool:
        """Whether the web says that it can serve."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def logs(self) -> str:
        """The ends of all logs, for a failure's message."""
        return self.run("logs", "--lines", "15").stdout


def wait_until(condition: Callable[[], bool], seconds: float = 60, what: str = "the condition",
               every: float = 0.1) -> None:  # fmt: skip
    """Wait for something that is going to happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {seconds} s"
        time.sleep(every)


@pytest.fixture(scope="module")
def scratch_home() -> Iterator[Path]:
    """A short path: some of what lies in it are sockets."""
    folder = Path(tempfile.mkdtemp(prefix="optimize-"))
    folder.chmod(0o755)
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def box(trained_box: Box) -> Box:
    """The box that the tests share; a module that needs one which nothing happened to makes its own."""
    return trained_box
