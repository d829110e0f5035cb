"""What happens once at each start, between the database and the services that use it."""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.logs import last_lines, open_log
from optimize_site.appliance.places import CHECKOUT, Places
from optimize_site.appliance.processes import dies_with_parent
from optimize_site.appliance.python import environment, manage

STATIC_SOURCES = ("static", "optimize_site/settings.py", "requirements/server.txt")


class Step:
    """One management command that runs beside the supervisor's loop."""

    def __init__(self, places: Places, *arguments: str, keep_output: bool = False) -> None:
        self._name = arguments[0]
        self._log = places.logs / "setup.log"
        self._process = _start(places, manage(*arguments), self._log, keep_output=keep_output)

    def is_done(self) -> bool:
        """Whether it ended; raises ApplianceError where it failed."""
        code = self._process.poll()
        if code:
            raise ApplianceError(
                f"`manage.py {self._name}` ended with status {code}.",
                log="\n".join(f"    {line}" for line in last_lines(self._log, 15)),
                hint=f"The whole output is in {self._log}.",
            )
        return code is not None

    def output(self) -> str:
        """What it printed, where that was kept out of the log."""
        return self._process.stdout.read().decode() if self._process.stdout else ""

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def _start(places: Places, command: list[str], log: Path, *, keep_output: bool) -> subprocess.Popen[bytes]:
    descriptor = open_log(log)
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if keep_output else descriptor,
            stderr=descriptor, cwd=CHECKOUT, env={**os.environ, **environment(places)}, start_new_session=True,
            preexec_fn=dies_with_parent(9),
        )  # fmt: skip
    finally:
        os.close(descriptor)


def is_static_current(places: Places) -> bool:
    """Whether the static files of this very tree were collected already."""
    try:
        return (places.home / "static" / ".tree").read_text() == static_digest()
    except OSError:
        return False


def note_static(places: Places) -> None:
    """Remember which tree was collected."""
    (places.home / "static").mkdir(exist_ok=True)
    (places.home / "static" / ".tree").write_text(static_digest())


def static_digest(checkout: Path = CHECKOUT) -> str:
    """A hash of everything that collectstatic depends on."""
    digest = hashlib.sha256()
    for path in _files(checkout):
        digest.update(f"{path.relative_to(checkout)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(checkout: Path) -> Iterator[Path]:
    for source in STATIC_SOURCES:
        path = checkout / source
        yield from sorted(found for found in path.rglob("*") if found.is_file()) if path.is_dir() else [path]
    for app in sorted(checkout.glob("*/static")):
        yield from sorted(found for found in app.rglob("*") if found.is_file())
