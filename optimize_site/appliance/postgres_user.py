"""As whom Postgres runs. It refuses root, so root gives it an unprivileged identity in one of two ways.

1. `nobody`, with a group that nobody else has. The group is what may pass the state folder, so other processes of
   `nobody` cannot come near the data.
2. Where the state folder lies below somebody's private folder: a user namespace in which root is called `nobody`.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from optimize_site.appliance.binaries import PostgresPrograms, copy_programs
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.places import Places

NOBODY = 65534
PRIVATE_GROUP = 61987
NAMESPACE = ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}")


@dataclass(frozen=True)
class RunAs:
    """How to start a program of Postgres: as which user and group, or behind which prefix."""

    user: int | None = None
    group: int | None = None
    prefix: tuple[str, ...] = ()

    def own(self, *paths: Path) -> None:
        """Hand existing paths, with all that is in them, to this identity."""
        for path in paths:
            owner = (os.geteuid(), os.getegid()) if self.user is None else (self.user, self.group or 0)
            if path.exists() and os.geteuid() == 0 and path.stat().st_uid != owner[0]:
                _change_owner(path, *owner)

    def run(self, command: list[str], *, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run one program to its end."""
        return subprocess.run(
            [*self.prefix, *command], input=stdin, text=True, capture_output=True, check=False,
            user=self.user, group=self.group, extra_groups=None if self.user is None else [],
            cwd="/", env={**os.environ, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip


def choose_run_as(places: Places, programs: PostgresPrograms) -> tuple[RunAs, PostgresPrograms]:
    """The identity for Postgres on this machine, and the programs that this identity can reach."""
    if os.geteuid() != 0:
        return RunAs(), programs
    dropped = RunAs(user=NOBODY, group=PRIVATE_GROUP)
    if can_pass(places.home.parent, NOBODY, PRIVATE_GROUP) and _open_to_group(places):
        reachable = _reachable(programs, places)
        if _runs(dropped, reachable):
            return dropped, reachable
    namespaced = RunAs(prefix=NAMESPACE)
    if shutil.which("unshare") and shutil.which("setpriv") and _runs(namespaced, programs):
        return namespaced, programs
    raise ApplianceError(
        "Postgres does not run as root, and here root can neither become another user nor make a user namespace.",
        hint="Run Optimize as an ordinary user, or name a Postgres server in DATABASE_URL.",
    )


def can_pass(path: Path, user: int, group: int) -> bool:
    """Whether a process of this user and group may go through the folder and all those above it."""
    return all(_may_enter(folder, user, group) for folder in (path, *path.parents))


def _may_enter(folder: Path, user: int, group: int) -> bool:
    facts = folder.stat()
    if facts.st_uid == user:
        return bool(facts.st_mode & 0o100)
    return bool(facts.st_mode & (0o010 if facts.st_gid == group else 0o001))


def _open_to_group(places: Places) -> bool:
    """Let the private group, and nobody else, pass the state folder; False where the system forbids such a group."""
    try:
        for folder in (places.home, places.run, places.sockets):
            os.chown(folder, 0, PRIVATE_GROUP)
            folder.chmod(0o710)
    except OSError:
        return False
    return True


def _reachable(programs: PostgresPrograms, places: Places) -> PostgresPrograms:
    if can_pass(programs.bin, NOBODY, PRIVATE_GROUP):
        return programs
    return copy_programs(programs, places.home / "programs")


def _runs(run_as: RunAs, programs: PostgresPrograms) -> bool:
    try:
        return run_as.run([programs.path("postgres"), "--version"]).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def _change_owner(root: Path, user: int, group: int) -> None:
    for folder, _, files in os.walk(root):
        os.chown(folder, user, group)
        for name in files:
            os.chown(Path(folder) / name, user, group, follow_symlinks=False)
