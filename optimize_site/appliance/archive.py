"""A backup file: a tar of the database's dump and the state's files, whose last member lists what must be in it.

Without that last member a file is no backup, so a copy that was cut short is never restored.
"""

import hashlib
import io
import json
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from optimize_site.appliance.errors import ApplianceError

MANIFEST = "MANIFEST.json"
DATABASE = "database.dump"
STATE = "state/"
VERSION = 1
CHUNK = 1024 * 1024


class ArchiveWriter:
    """Adds files to a backup and keeps count of them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 -- closed by finish
        self._files: dict[str, dict[str, Any]] = {}

    def add(self, path: Path, name: str) -> None:
        """Add a file as it is now. One that grows meanwhile is taken at the size it had; one that went away is not."""
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return
        with file:
            member = tarfile.TarInfo(name)
            member.size = path.stat().st_size
            member.mtime, member.mode = int(path.stat().st_mtime), 0o600
            reader = _HashingReader(file)
            self._tar.addfile(member, reader)
        self._files[name] = {"sha256": reader.hexdigest(), "bytes": member.size}

    def finish(self, **facts: Any) -> dict[str, Any]:
        """Write the manifest, last; returns it."""
        manifest = {"version": VERSION, "madeAt": time.time(), **facts, "files": self._files}
        body = json.dumps(manifest).encode()
        member = tarfile.TarInfo(MANIFEST)
        member.size, member.mode = len(body), 0o600
        self._tar.addfile(member, io.BytesIO(body))
        self._tar.close()
        return manifest


def verify(path: Path) -> dict[str, Any]:
    """The manifest of a backup of which every byte was checked; raises ApplianceError where anything is amiss."""
    found: dict[str, str] = {}
    manifest: dict[str, Any] = {}
    with _reading(path):
        for member, stream in _members(path):
            if member.name == MANIFEST:
                manifest = json.loads(stream.read())
            else:
                found[member.name] = _digest(stream)
    if manifest.get("version") != VERSION:
        raise ApplianceError(f"{path} is no whole backup: its list of contents is missing or of another version.")
    wanted = {name: facts["sha256"] for name, facts in manifest["files"].items()}
    if wrong := sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)):
        raise ApplianceError(f"{path} is damaged: {len(wrong)} of its files are not as written, {wrong[0]} the first.")
    if DATABASE not in wanted:
        raise ApplianceError(f"{path} holds no database.")
    return manifest


def extract(path: Path, home: Path, dump: Path) -> None:
    """Write the files of a verified backup into the state folder, and its database's dump to `dump`."""
    for member, stream in _members(path):
        if member.name == DATABASE:
            _write(stream, dump)
        elif member.name.startswith(STATE):
            _write(stream, home / member.name.removeprefix(STATE))


def is_safe_name(name: str) -> bool:
    """Whether a member may be in a backup: the database, the manifest, or a plain path below the state."""
    if name in (DATABASE, MANIFEST):
        return True
    parts = PurePosixPath(name).parts
    return name.startswith(STATE) and len(parts) > 1 and not {"..", "/"} & set(parts) and "\0" not in name


def _members(path: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """The members in order; refuses links, devices and names that lead elsewhere."""
    with tarfile.open(path, "r:") as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isreg() else None
            if stream is None or not is_safe_name(member.name):
                raise ApplianceError(f"{path} is no backup of Optimize: it holds {member.name!r}.")
            yield member, stream


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Faults of the file, as sentences."""
    try:
        yield
    except FileNotFoundError:
        raise ApplianceError(f"There is no file {path}.") from None
    except (tarfile.TarError, OSError, ValueError) as error:
        raise ApplianceError(f"{path} cannot be read as a backup: {error}.") from error


def _write(stream: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with target.open("wb") as file:
        target.chmod(0o600)
        while chunk := stream.read(CHUNK):
            file.write(chunk)


def _digest(stream: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


class _HashingReader(io.RawIOBase):
    """Passes a file's bytes on and hashes them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        chunk = self._file.read(size)
        self._digest.update(chunk)
        return chunk

    def hexdigest(self) -> str:
        """The hash of all that was read."""
        return self._digest.hexdigest()
