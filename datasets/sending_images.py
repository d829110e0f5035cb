"""What commands do with images: find the files rows name, ask which the box lacks, and send those."""

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track

from datasets.errors import ImageInvalid
from datasets.image_bytes import ImageRefused, read_image
from datasets.lines import read_lines
from datasets.rows import RowRefused, images_of, read_row
from optimize_site.kernel.blobs import read_chunks
from optimize_site.kernel.commands import NounCommand
from optimize_site.kernel.errors import InvalidInput

ROUTES = "/v1/registry/images"
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
MARK = b'"image"'
ASKED = 500
SHOWN = 5


@dataclass(frozen=True)
class LocalImage:
    """An image on this disk, and the path by which rows name it."""

    path: str
    file: Path
    sha256: str


def images_beside(rows: Path) -> list[LocalImage]:
    """The images that a file of chat rows names, from its folder.

    Raises ImageInvalid for one that is not there, or is no image that is read.
    """
    paths = sorted(_named_in(rows))
    absent = [path for path in paths if not (rows.parent / path).is_file()]
    if absent:
        raise ImageInvalid(f"{len(absent)} of the {len(paths)} images that {rows.name} names are not in "
                           f"{rows.parent.absolute()}: {', '.join(absent[:SHOWN])}.",
                           hint="Paths are relative to the file of rows.")
    return [_local(path, rows.parent / path) for path in paths]


def _named_in(rows: Path) -> set[str]:
    """The paths that the good rows of a file name; what is wrong with the others is said when they are registered."""
    named: set[str] = set()
    with rows.open("rb") as file:
        for line in read_lines(read_chunks(file)):
            if MARK not in line.data:
                continue
            try:
                named |= {path for _, path in images_of(read_row(line.data))}
            except RowRefused:
                continue
    return named


def images_at(paths: Sequence[str]) -> list[LocalImage]:
    """The images among files and folders, those of a folder at any depth. Raises InvalidInput, ImageInvalid."""
    files = [file for path in paths for file in _files_at(Path(path))]
    if not files:
        raise InvalidInput(f"There is no image at {', '.join(paths)[:200]}.", code="image_not_found",
                           hint=f"Images end in {', '.join(SUFFIXES)}.")
    return [_local(str(file), file) for file in files]


def _files_at(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not path.is_file():
        raise InvalidInput(f"{path} is no file and no folder.", code="image_not_found")
    return [path]


def _local(path: str, file: Path) -> LocalImage:
    try:
        read_image(file)
    except ImageRefused as error:
        raise ImageInvalid(f"{file} {error}.") from error
    with file.open("rb") as opened:
        return LocalImage(path, file, hashlib.file_digest(opened, "sha256").hexdigest())


def missing(command: NounCommand, images: Sequence[LocalImage]) -> list[LocalImage]:
    """Those that the box lacks, each of the same bytes once."""
    absent: set[str] = set()
    known = [image.sha256 for image in images]
    for start in range(0, len(known), ASKED):
        absent |= set(command.client.post(f"{ROUTES}/missing", {"sha256s": known[start:start + ASKED]})["missing"])
    return list({image.sha256: image for image in images if image.sha256 in absent}.values())


def push(command: NounCommand, images: Sequence[LocalImage]) -> list[LocalImage]:
    """Send those that the box lacks; gives what was sent. A push that stopped goes on where it was."""
    absent = missing(command, images)
    for image in _watched(command, absent):
        command.client.send_file(ROUTES, image.file)
    return absent


def _watched(command: NounCommand, images: Sequence[LocalImage]) -> Iterator[LocalImage]:
    if command.options.quiet or not sys.stderr.isatty():
        return iter(images)
    return iter(track(images, description="Sending images", console=Console(stderr=True), transient=True))


def push_with_manifest(command: NounCommand, rows: Path) -> str:
    """Send the images a file of rows names, and the list of them; its digest, empty where the rows name none."""
    images = images_beside(rows)
    if not images:
        return ""
    push(command, images)
    with tempfile.TemporaryFile() as file:
        for image in images:
            line = json.dumps({"path": image.path, "sha256": image.sha256}, ensure_ascii=False)
            file.write(line.encode() + b"\n")
        file.seek(0)
        return str(command.client.send_file(f"{ROUTES}/manifests", file)["manifest"])
