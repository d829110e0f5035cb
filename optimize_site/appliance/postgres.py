"""The embedded Postgres: made once, started as a foreground child, reached by a socket."""

import shutil
from pathlib import Path
from urllib.parse import quote

from optimize_site.appliance.binaries import PostgresPrograms
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.places import Places
from optimize_site.appliance.postgres_user import RunAs
from optimize_site.processes import Identity, start_time

ROLE = DATABASE = "optimize"
PORT = 5432


class Cluster:
    """One database cluster in the state folder."""

    def __init__(self, places: Places, programs: PostgresPrograms, run_as: RunAs) -> None:
        self.data = places.postgres
        self.sockets = places.sockets / "pg"
        self.programs = programs
        self.run_as = run_as

    def prepare(self) -> None:
        """Make the cluster where there is none; refuse one of another major version."""
        self.sockets.mkdir(exist_ok=True, mode=0o700)
        self.run_as.own(self.data, self.sockets)
        if self.data.exists():
            self._refuse_another_major()
        else:
            self._make()

    def command(self) -> list[str]:
        """The server as a foreground process, reached by its socket alone."""
        settings = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": str(self.sockets),
            "unix_socket_permissions": "0700",
            "max_connections": "100",
            "logging_collector": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self.programs.path("postgres"), "-D", str(self.data), *options]

    def is_ready(self, pid: int) -> bool:
        """Whether the server with this pid takes connections, as it says in its own pid file."""
        lines = self._pid_file()
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def left_over(self) -> Identity | None:
        """A server that still runs on this cluster from before, or None."""
        lines = self._pid_file()
        if not lines or not lines[0].isdigit() or start_time(int(lines[0])) is None:
            return None
        pid = int(lines[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return Identity.of(pid) if str(self.data) in command else None

    def url(self) -> str:
        """How clients reach the database."""
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self.sockets), safe='/')}&port={PORT}"

    def _make(self) -> None:
        """Build beside and rename, so that a half-made cluster is never taken for one."""
        beside = self.data.with_name("postgres.new")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(mode=0o700)
        self.run_as.own(beside)
        self._run("initdb", "-D", str(beside), f"--username={ROLE}", "--auth=trust", "--encoding=UTF8",
                  "--locale=C.UTF-8", "--no-instructions")  # fmt: skip
        self._run("postgres", "--single", "-D", str(beside), "template1", stdin=f"CREATE DATABASE {DATABASE};\n")
        beside.rename(self.data)

    def _run(self, program: str, *arguments: str, stdin: str | None = None) -> None:
        done = self.run_as.run([self.programs.path(program), *arguments], stdin=stdin)
        if done.returncode:
            raise ApplianceError(
                f"The database could not be made in {self.data}: {program} ended with status {done.returncode}.",
                log=(done.stderr or done.stdout).strip()[-2000:],
            )

    def _refuse_another_major(self) -> None:
        try:
            made_by = (self.data / "PG_VERSION").read_text().strip()
        except OSError as error:
            raise ApplianceError(
                f"{self.data} holds no Postgres database ({error.strerror}: PG_VERSION).",
                hint="Move that folder away, or restore a backup with `./optimize restore FILE --force`.",
            ) from error
        carried = self.programs.major()
        if made_by != str(carried):
            raise ApplianceError(
                f"The database in {self.data} was made by Postgres {made_by}; this version carries Postgres {carried}.",
                hint="Back it up with the version of Optimize that made it (`./optimize backup FILE`), "
                "then `./optimize restore FILE --force` here.",
            )

    def _pid_file(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return []
