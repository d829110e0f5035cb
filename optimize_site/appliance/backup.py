"""Backup and restore of the whole state: the database and every file that cannot be made again."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from optimize_site.appliance.archive import DATABASE, STATE, ArchiveWriter, extract, verify
from optimize_site.appliance.binaries import find_postgres
from optimize_site.appliance.documents import read_document
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.lock import HomeLock, supervisor_of
from optimize_site.appliance.outside import outside_url
from optimize_site.appliance.places import Places
from optimize_site.appliance.temporary import running_postgres

# Made again by any start or installation, or of no use later.
LEFT_OUT = {
    *("run", "logs", "postgres", "postgres.new", "programs", "static", "scratch", "status.json"),
    *("venv", "venv-jobs", "venv.lock", "venv-jobs.lock", "pycache"),
}
REPLACED = "replaced-"


def make_backup(places: Places, target: Path) -> dict[str, Any]:
    """Write the whole state into one file, whether the box is up or down; returns the file's manifest.

    The database is read in one transaction, before the files: what it names is never missing from them.
    """
    if target.exists():
        raise ApplianceError(f"{target} exists already.", hint="Name a new file; a backup is never written over.")
    if not target.parent.is_dir():
        raise ApplianceError(f"There is no folder {target.parent} to write {target.name} into.", hint="Make it first.")
    if not (places.home / "secret_key").exists() and not places.postgres.exists():
        raise ApplianceError(f"There is no state in {places.home} to back up.")
    beside = target.with_name(f".{target.name}.partial")
    dump = target.with_name(f".{target.name}.dump")
    try:
        with _database(places) as url:
            _run_client("pg_dump", url, "--format=custom", "--no-owner", "--no-privileges", f"--file={dump}")
        manifest = _write_archive(places, beside, dump)
        beside.rename(target)
    except OSError as error:
        raise ApplianceError(f"{target} could not be written: {error.strerror}.") from error
    finally:
        beside.unlink(missing_ok=True)
        dump.unlink(missing_ok=True)
    return manifest


def restore_backup(places: Places, source: Path, *, force: bool) -> dict[str, Any]:
    """Make the state what the backup holds. The box must be down, and its state empty unless `force`.

    Nothing is touched before the backup was read and checked whole. What was there is moved aside, not deleted.
    """
    manifest = verify(source)
    places.create()
    with _locked(places):
        present = list(state_entries(places.home)) + [path for path in [places.postgres] if path.exists()]
        if [path for path in present if path.name != "secret_key"] and not force:
            raise ApplianceError(
                f"{places.home} already holds a state.",
                hint="Restore into an empty folder (OPTIMIZE_HOME), or add --force: what is there is then moved aside.",
            )
        _move_aside(places, present)
        dump = places.run / DATABASE
        try:
            extract(source, places.home, dump)
            _fill_database(places, dump, force=force)
        finally:
            dump.unlink(missing_ok=True)
    return manifest


def state_entries(home: Path) -> Iterator[Path]:
    """The entries of the state folder that belong into a backup."""
    for path in sorted(home.iterdir()):
        if path.name not in LEFT_OUT and not path.name.startswith((REPLACED, ".")):
            yield path


def _write_archive(places: Places, target: Path, dump: Path) -> dict[str, Any]:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        writer = ArchiveWriter(stream)
        writer.add(dump, DATABASE)
        for path in _files(places.home, leave_out={target, dump}):
            writer.add(path, STATE + str(path.relative_to(places.home)))
        manifest = writer.finish(postgres=find_postgres().major())
        stream.flush()
        os.fsync(stream.fileno())
    return manifest


def _files(home: Path, leave_out: set[Path]) -> Iterator[Path]:
    """Every regular file of the state; of a link, what it leads to."""
    for entry in state_entries(home):
        for path in sorted(entry.rglob("*")) if entry.is_dir() else [entry]:
            if path.is_file() and path.absolute() not in {other.absolute() for other in leave_out}:
                yield path


@contextmanager
def _database(places: Places) -> Iterator[str]:
    """The address of the state's database: the outside one, the running box's, or one started for this."""
    if outside := outside_url(places, "DATABASE_URL"):
        yield outside
    elif supervisor_of(places):
        yield read_document(places.services)["database_url"]
    else:
        places.create()
        with _locked(places), running_postgres(places) as url:
            yield url


@contextmanager
def _locked(places: Places) -> Iterator[None]:
    lock = HomeLock(places)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _move_aside(places: Places, present: list[Path]) -> None:
    if present:
        aside = places.home / f"{REPLACED}{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
        aside.mkdir(mode=0o700)
        for path in present:
            path.rename(aside / path.name)


def _fill_database(places: Places, dump: Path, *, force: bool) -> None:
    with ExitStack() as stack:
        url = outside_url(places, "DATABASE_URL")
        if url and force:
            _run_client("psql", url, "--quiet", "--command=DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        url = url or stack.enter_context(running_postgres(places))
        _run_client("pg_restore", url, "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction",
                    str(dump))  # fmt: skip


def _run_client(program: str, url: str, *arguments: str) -> None:
    """Run a client program of Postgres. The password goes by the environment, out of other users' sight."""
    parts = urlsplit(url)
    shown = url.replace(f":{parts.password}@", "@", 1) if parts.password else url
    env = {**os.environ, "PGPASSWORD": unquote(parts.password)} if parts.password else None
    command = [find_postgres().path(program), f"--dbname={shown}", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise ApplianceError(f"{program} ended with status {done.returncode}.", log=done.stderr.strip()[-2000:])
