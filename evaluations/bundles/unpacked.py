"""A bundle's files on the disk, for a confined process to read: unpacked from the archive as it was registered."""

import hashlib
import shutil
import tempfile
import zipfile
from pathlib import Path

CHUNK = 1 << 20


class BadArchive(Exception):
    """The archive is not the one that was named, or cannot be unpacked."""


def unpack(archive: Path, sha256: str, scratch: Path | None) -> Path:
    """A new folder with `files`, the archive's, and `top`, an empty one. Raises BadArchive, OSError.

    What may lie in an archive was looked through before it was registered; here its bytes are held to its hash, and no
    path leaves the folder.
    """
    _check(archive, sha256)
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bundle-", dir=scratch))
    try:
        for name in ("files", "top"):
            (folder / name).mkdir()
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                _write(packed, info, folder / "files")
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, zipfile.BadZipFile):
            raise BadArchive(f"The bundle {sha256[:12]} cannot be unpacked: {error}.") from error
        raise
    return folder


def _check(archive: Path, sha256: str) -> None:
    digest = hashlib.sha256()
    try:
        with archive.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise BadArchive(f"The bundle {sha256[:12]} cannot be read: {error}.") from error
    if digest.hexdigest() != sha256:
        raise BadArchive(f"The bundle's bytes are those of {digest.hexdigest()[:12]}, not of {sha256[:12]}.")


def _write(packed: zipfile.ZipFile, info: zipfile.ZipInfo, files: Path) -> None:
    place = files / info.filename
    if not place.resolve().is_relative_to(files.resolve()):
        raise BadArchive(f"{info.filename!a} leaves the bundle.")
    if info.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with packed.open(info) as source, place.open("wb") as target:
        shutil.copyfileobj(source, target, CHUNK)
