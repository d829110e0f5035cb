"""Where everything of the box lies: the checkout, the two environments, the parts of the state folder."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from optimize_site.appliance.errors import ApplianceError
from optimize_site.kernel.conf import home

CHECKOUT = Path(__file__).resolve().parents[2]
LONGEST_SOCKET_PATH = 107
SHORT_BASE = Path("/tmp")  # noqa: S108 -- the folder made there is private and its owner is checked
LONGEST_SOCKET_NAME = "/pg/.s.PGSQL.5432"


@dataclass(frozen=True)
class Places:
    """The state folder and its parts; nothing here touches the disk but `create` and `sockets`."""

    home: Path

    @classmethod
    def here(cls) -> "Places":
        """The places of the state folder that the environment names."""
        return cls(home())

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def lock(self) -> Path:
        return self.run / "supervisor.lock"

    @property
    def supervisor(self) -> Path:
        return self.run / "supervisor.json"

    @property
    def services(self) -> Path:
        return self.run / "services.json"

    @property
    def status(self) -> Path:
        return self.home / "status.json"

    @property
    def ready(self) -> Path:
        return self.run / "ready"

    @property
    def postgres(self) -> Path:
        return self.home / "postgres"

    @property
    def sockets(self) -> Path:
        """The folder for sockets: `run`, or a short private one where the system could not bind so long a path."""
        if len(str(self.run) + LONGEST_SOCKET_NAME) <= LONGEST_SOCKET_PATH:
            return self.run
        return _short_run_folder(self.home)

    def create(self) -> None:
        """Make the state folder and its parts, readable by their owner alone."""
        if self.home.resolve().is_relative_to(CHECKOUT):
            raise ApplianceError(
                f"The state folder {self.home} lies inside the checkout {CHECKOUT}.",
                hint="Set OPTIMIZE_HOME to a folder outside it.",
            )
        try:
            self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
            _close_to_strangers(self.home)
            for part in (self.run, self.logs, self.ready, self.sockets):
                part.mkdir(exist_ok=True, mode=0o700)
                _close_to_strangers(part)
        except OSError as error:
            raise ApplianceError(
                f"The state folder {self.home} cannot be written: {error.strerror}.",
                hint="Set OPTIMIZE_HOME to a folder of your own.",
            ) from error


def _close_to_strangers(folder: Path) -> None:
    """Take what others may do; the group may have been given a way through on purpose."""
    mode = folder.stat().st_mode & 0o777
    if mode & 0o007:
        folder.chmod(0o700)


def _short_run_folder(state: Path) -> Path:
    """A folder that only this user can have made, the same for every process of the box.

    Not below XDG_RUNTIME_DIR: that goes away when the user logs out, and the box stays.
    """
    digest = hashlib.sha256(str(state).encode()).hexdigest()[:12]
    folder = SHORT_BASE / f"optimize-{os.geteuid()}-{digest}"
    if folder.exists() and (folder.is_symlink() or folder.stat().st_uid != os.geteuid()):
        raise ApplianceError(f"{folder} belongs to somebody else.", hint="Set OPTIMIZE_HOME to a shorter path.")
    return folder
