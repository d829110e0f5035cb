"""Images that rows name by a path: taken in once by their SHA-256, and found again when the rows are registered."""

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets.errors import DatasetInvalid, DiskFull, ImageInvalid, ImageUnknown
from datasets.formats import FormatFacts
from datasets.image_bytes import MAX_BYTES, ImageFacts, ImageRefused, read_image
from datasets.lines import read_lines
from datasets.models import Image
from datasets.rows import path_fault
from datasets.strict_json import LineRefused, parse_line
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.blobs import hold, open_blob, put_stream, read_chunks
from optimize_site.kernel.errors import InvalidInput, Problem

MAX_ASKED = 1000
MAX_MANIFEST_BYTES = 512 << 20
MAX_PROBLEMS = 20
ADVICE = "Send a PNG, JPEG or WebP, scaled down where it is too large."


# Taking images in ----------------------------------------------------------------------------------------------------


def put_image(chunks: Iterable[bytes], *, actor: Actor) -> tuple[Image, bool]:
    """Keep an image, given as its bytes in order; False with one that was kept before.

    Raises ImageInvalid for bytes that are no whole PNG, JPEG or WebP of a size that is read, DiskFull, Forbidden.
    """
    actor.require("operator")
    found: list[ImageFacts] = []

    def check(path: Path) -> None:
        found.append(_checked(path))

    with _disk_full_said("image"):
        blob = put_stream(_no_larger(chunks, MAX_BYTES, "The image", ADVICE), check)
    facts = found[0]
    return Image.objects.get_or_create(sha256=blob.sha256, defaults={
        "media_type": facts.media_type, "width": facts.width, "height": facts.height, "size_bytes": blob.size_bytes,
        "created_by": actor.name})


@contextmanager
def _disk_full_said(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise DiskFull(f"There is no space left for the {what}.",
                       hint="Free some disk space and send it again.") from error


def _no_larger(chunks: Iterable[bytes], most: int, what: str, advice: str) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise ImageInvalid(f"{what} has more than {most:,} bytes.", hint=advice)
        yield chunk


def _checked(path: Path) -> ImageFacts:
    try:
        return read_image(path)
    except ImageRefused as error:
        raise ImageInvalid(f"The image {error}.", hint=ADVICE) from error


def missing_images(sha256s: Sequence[str], *, actor: Actor) -> list[str]:
    """Which of these images are to be sent, in the order asked; the others stay here meanwhile. Raises InvalidInput."""
    actor.require("operator")
    if len(sha256s) > MAX_ASKED:
        raise InvalidInput(f"{len(sha256s)} images were asked for; at most {MAX_ASKED} can be at once.",
                           code="too_many_images")
    held = _kept(set(sha256s))
    return [sha256 for sha256 in dict.fromkeys(sha256s) if sha256 not in held]


def _kept(sha256s: set[str]) -> set[str]:
    """Which of these are images that the box keeps; they stay here meanwhile."""
    return hold(Image.objects.filter(pk__in=sha256s).values_list("pk", flat=True))


def get_image(sha256: str) -> Image:
    """One image. Raises ImageUnknown."""
    found = Image.objects.filter(pk=sha256).first()
    if found is None:
        raise ImageUnknown(f"There is no image {sha256[:12]}.", hint="Send it with `./optimize registry images push`.")
    return found


# What a file of rows names -------------------------------------------------------------------------------------------


def put_manifest(chunks: Iterable[bytes], *, actor: Actor) -> tuple[str, int]:
    """Keep a list of images, one `{"path", "sha256"}` a line, for rows to be registered with; its digest and length.

    Raises ImageInvalid for a bad line, a list that is too long, and images that were not sent; DiskFull.
    """
    actor.require("operator")
    with _disk_full_said("list of images"):
        blob = put_stream(_no_larger(chunks, MAX_MANIFEST_BYTES, "The list of images", "Register them as several "
                                     "datasets."))
    named = read_manifest(blob.sha256)
    known = _kept(set(named.values()))
    absent = [path for path, sha256 in named.items() if sha256 not in known]
    if absent:
        raise ImageInvalid(f"{len(absent)} of {len(named)} images were not sent, the first is {absent[0]}.",
                           hint="Send them first: `./optimize registry images push PATH…`.",
                           missing=absent[:MAX_PROBLEMS])
    return blob.sha256, len(named)


def read_manifest(sha256: str) -> dict[str, str]:
    """The digest of each path of a list that was kept. Raises ImageInvalid, ImageUnknown."""
    named: dict[str, str] = {}
    try:
        with open_blob(sha256) as file:
            for line in read_lines(read_chunks(file)):
                if not line.is_blank:
                    path, digest = _entry(line.data, line.number)
                    if named.setdefault(path, digest) != digest:
                        raise ImageInvalid(f"Line {line.number} of the list of images gives {path} another digest than "
                                           "a line before it.", hint="Name each path once.")
    except FileNotFoundError as error:
        raise ImageUnknown("The list of images is not here.", hint="Send it again.") from error
    return named


def _entry(line: bytes, number: int) -> tuple[str, str]:
    try:
        entry = parse_line(line)
    except LineRefused as error:
        raise ImageInvalid(f"Line {number} of the list of images is refused: {error.problem.message}",
                           hint=error.problem.hint) from error
    path, digest = (entry.get("path"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
    if not isinstance(path, str) or not isinstance(digest, str) or path_fault(path):
        raise ImageInvalid(f"Line {number} of the list of images names no path and digest.",
                           hint='Right: {"path": "images/invoice-1042.png", "sha256": "…"}.')
    return path, digest


def with_images(facts: FormatFacts, manifest: str) -> FormatFacts:
    """The facts with the images that the rows name, looked up in a list that was kept; empty: there is none.

    `details.images` lists `{"path", "sha256", "bytes"}` by path. Raises DatasetInvalid for a path without an image.
    """
    if not facts.image_lines:
        return facts
    named = read_manifest(manifest) if manifest else {}
    wanted = {named[path] for path in facts.image_lines if path in named}
    found = {image.pk: image for image in Image.objects.filter(pk__in=_kept(wanted))}
    absent = {path: line for path, line in facts.image_lines.items() if named.get(path) not in found}
    if absent:
        raise _not_sent(absent)
    images = [_listed(path, found[named[path]]) for path in sorted(facts.image_lines)]
    return replace(facts, num_images=len(images), details=dict(facts.details) | {"images": images})


def _listed(path: str, image: Image) -> dict[str, Any]:
    return {"path": path, "sha256": image.pk, "bytes": image.size_bytes}


def _not_sent(absent: Mapping[str, int]) -> DatasetInvalid:
    problems = [Problem(f"line {line}", "image_missing", f"The image {path} is not among those sent with the file.")
                for path, line in list(absent.items())[:MAX_PROBLEMS]]
    return DatasetInvalid(f"{len(absent)} images that the rows name were not sent with them.", problems=problems,
                          hint="`./optimize registry datasets register` sends them from the folder of the file.")


def hashed_images(facts: FormatFacts) -> bytes:
    """What the content hash takes in after the rows: the digest of each image by its path, in order of the paths."""
    return b"".join(f"\n{image['path']}\0{image['sha256']}".encode() for image in facts.details.get("images", []))
