"""Takes a file in: onto the disk while it is looked at, and kept only where it is good."""

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from datasets.errors import DiskFull
from datasets.findings import MAX_COMPARED_ROWS
from datasets.formats import Archive, ArchiveFormat, FormatFacts
from datasets.formats.archives import UNPACKED_TIMES
from datasets.formats.known import ARCHIVE_FORMATS
from datasets.identity import Identity
from datasets.images import hashed_images, with_images
from datasets.ingest import Examined, examination, facts_of, refuse_too_large
from datasets.models import Shard
from datasets.stretches import Stretch, file_refused
from optimize_site.kernel.archives import Limits, examine_archive
from optimize_site.kernel.blobs import flushed_beside, keep_scratch, put_stream, scratch_file
from optimize_site.kernel.conf import setting
from registry.operations.artifacts import NewVersion

EXAMPLES_FILE = "examples.jsonl"
ZIP_MAGIC = b"PK\x03\x04"


@dataclass(frozen=True)
class Contents:
    """What a version of a dataset holds. `objects` is its listing; `shards` those of it that hold rows, in order."""

    format: str
    content_hash: str
    num_examples: int
    num_blank_lines: int
    objects: list[dict[str, Any]]
    shards: list[dict[str, Any]]
    facts: FormatFacts
    descriptor: dict[str, Any]

    @property
    def size_bytes(self) -> int:
        """The bytes of the files that hold rows."""
        return sum(shard["bytes"] for shard in self.shards)


def take_in(chunks: Iterable[bytes], *, length: int | None = None, images: str = "") -> Contents:
    """Keep a whole dataset that is sent as one file: lines, or an archive. `images` is the list sent beforehand.

    Nothing is kept of a file that is refused. Raises DatasetInvalid, DatasetTooLarge, DiskFull.
    """
    head, rest = _opening(limited(chunks, length))
    if head.startswith(ZIP_MAGIC):
        return _take_archive(chain([head], rest))
    shard, examined = take_shard(chain([head], rest))
    facts = with_images(facts_of(examined.stretch), images)
    return contents_of_rows(examined.stretch, facts, [listed(EXAMPLES_FILE, shard)],
                            examined.identity.rows_hash(hashed_images(facts)))


def limited(chunks: Iterable[bytes], length: int | None) -> Iterator[bytes]:
    """The chunks, as long as they are not more than the box takes. Raises DatasetTooLarge."""
    limit = int(setting("trainer.datasets.max-bytes"))
    refuse_too_large(length or 0, limit)
    size = 0
    for chunk in chunks:
        size += len(chunk)
        refuse_too_large(size, limit)
        yield chunk


def take_shard(chunks: Iterable[bytes], *, compared: int = MAX_COMPARED_ROWS, name: str = "",
               before: Identity | None = None,
               check: Callable[[Examined], None] = lambda found: None) -> tuple[Shard, Examined]:
    """Keep a file of rows, and what examining it found; `name` is the file's among several, `before` the rows before.

    `check` sees what was found first; where it raises, nothing is kept. Raises DatasetInvalid with its bad lines,
    DiskFull.
    """
    with disk_full_said(), scratch_file() as file:
        with (examination(Path(file.name), compared=compared, before=before) as look,
              flushed_beside(file) as note_written):
            for chunk in chunks:
                file.write(chunk)
                file.flush()
                note_written()
                look.grow(chunk)
            found = look.end(name)
        check(found)
        blob = keep_scratch(file, found.identity.bytes_hash(), found.size_bytes)
    return keep_shard(blob.sha256, found), found


def keep_shard(sha256: str, found: Examined) -> Shard:
    """Keep what examining the file of this hash found."""
    shard, _ = Shard.objects.update_or_create(sha256=sha256, defaults={
        "rows_hash": found.content_hash, "size_bytes": found.size_bytes, "num_examples": found.num_examples,
        "found": found.stretch.state()})
    return shard


def listed(path: str, shard: Shard) -> dict[str, Any]:
    """A shard as a dataset's row lists it."""
    return {"path": path, "sha256": shard.sha256, "bytes": shard.size_bytes, "examples": shard.num_examples}


def contents_of_rows(stretch: Stretch, facts: FormatFacts, shards: list[dict[str, Any]], content_hash: str) -> Contents:
    """Good rows in these files, with what their registration lists beside them."""
    items = [*shards, *facts.details.get("images", [])]
    objects = [{key: item[key] for key in ("path", "sha256", "bytes")} for item in items]
    return Contents(stretch.format, content_hash, stretch.num_rows, stretch.num_blank_lines, objects, shards, facts, {})


def _take_archive(chunks: Iterable[bytes]) -> Contents:
    with disk_full_said(), scratch_file() as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        path = Path(file.name)
        with archive_format(path).read(path) as archive:
            return _keep_archive(archive)


def archive_format(path: Path) -> ArchiveFormat:
    """The format an archive is of, told by the file that describes it. Raises DatasetInvalid, ArchiveRefused."""
    limit = int(setting("trainer.datasets.max-bytes"))
    entries = examine_archive(path, Limits(limit, limit * UNPACKED_TIMES))
    names = {entry.path for entry in entries if not entry.is_folder}
    kind = next((kind for kind in ARCHIVE_FORMATS if kind.marker in names), None)
    if kind is None:
        markers = " nor ".join(kind.marker for kind in ARCHIVE_FORMATS)
        raise file_refused("zip_file", f"The file is a ZIP archive that holds neither {markers}.",
                           "Rows are sent as they are: unpack the archive and register the JSONL file inside.")
    return kind


def _keep_archive(archive: Archive) -> Contents:
    objects = []
    for item in archive.objects:
        blob = put_stream(item.chunks())
        objects.append({"path": item.path, "sha256": blob.sha256, "bytes": blob.size_bytes})
    by_path = {item["path"]: item for item in objects}
    shards = [by_path[path] | {"examples": rows} for path, rows in archive.row_paths.items()]
    digest = NewVersion(archive.format, objects, descriptor=archive.descriptor).digest
    return Contents(archive.format, archive.content_hash or digest, archive.num_examples, 0, objects, shards,
                    archive.facts, archive.descriptor)


def _opening(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """As many of the first bytes as tell an archive, and what follows them."""
    head = b""
    while len(head) < len(ZIP_MAGIC) and (chunk := next(chunks, b"")):
        head += chunk
    return head, chunks


@contextmanager
def disk_full_said() -> Iterator[None]:
    """Turns a full disk into DiskFull."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise DiskFull("There is no space left for the file.", hint="Free some disk space and send it again; nothing "
                       "was registered.") from error
