"""Bytes kept once, by their SHA-256, behind Django's storage interface."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from django.core.files import File
from django.core.files.storage import Storage, storages
from django.db import transaction

from optimize_site.kernel import clock
from optimize_site.kernel.conf import home
from optimize_site.kernel.models import Blob

CHUNK = 1 << 20
FLUSHED_BYTES = 16 << 20


def store() -> Storage:
    """Where blobs lie: the local disk, or what the settings put in its place."""
    return storages["blobs"]


def blob_name(sha256: str) -> str:
    """The storage name of a blob."""
    return f"{sha256[:2]}/{sha256}"


def read_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """A file's bytes, a mebibyte at a time."""
    while chunk := file.read(CHUNK):
        yield chunk


def put_stream(chunks: Iterable[bytes], check: Callable[[Path], object] | None = None) -> Blob:
    """Keep the bytes, however many, in constant memory; the same bytes twice are one blob. Raises OSError (disk).

    `check` sees the whole file first; where it raises, nothing is kept.
    """
    digest, size = hashlib.sha256(), 0
    with scratch_file() as file:
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
            file.write(chunk)
        file.flush()
        if check is not None:
            check(Path(file.name))
        return keep_scratch(file, digest.hexdigest(), size)


@contextmanager
def scratch_file() -> Iterator[IO[bytes]]:
    """A file for bytes on their way in; what is left of it goes with the block."""
    scratch = home() / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=scratch, prefix="blob-", delete=False) as file:
        try:
            yield file
        finally:
            Path(file.name).unlink(missing_ok=True)


@contextmanager
def flushed_beside(file: IO[bytes]) -> Iterator[Callable[[], None]]:
    """Gives what to call after a write: the disk takes a large file in while the rest still comes."""
    with ThreadPoolExecutor(1) as thread:
        flushed, last = [0], list[Future[None]]()

        def note_written() -> None:
            written = file.tell()
            if written - flushed[0] >= FLUSHED_BYTES and all(flush.done() for flush in last):
                flushed[0], last[:] = written, [thread.submit(os.fdatasync, file.fileno())]

        yield note_written


def keep_scratch(file: IO[bytes], sha256: str, size: int) -> Blob:
    """Keep what was written to a scratch file, whose hash is known. Raises OSError (disk)."""
    file.flush()
    os.fsync(file.fileno())
    return _keep(Path(file.name), sha256, size)


def put_file(path: Path) -> Blob:
    """Keep a copy of a file's bytes."""
    with path.open("rb") as file:
        return put_stream(read_chunks(file))


@transaction.atomic
def hold(sha256s: Iterable[str]) -> set[str]:
    """Which of these bytes the box keeps. Held ones need not be sent again: garbage collection leaves them alone for
    its whole grace from now on, in which whoever asked refers to them.
    """
    rows = Blob.objects.filter(pk__in=set(sha256s)).order_by("pk").select_for_update()
    kept = {sha256 for sha256 in rows.values_list("pk", flat=True) if store().exists(blob_name(sha256))}
    Blob.objects.filter(pk__in=kept).update(held_at=clock.now())
    return kept


def end_holds_ahead() -> None:
    """Bytes that were held before the clock was set back were held now: they would be kept for as long as that."""
    Blob.objects.filter(held_at__gt=clock.now()).update(held_at=clock.now())


class Written(File):
    """A finished file that a store on the same disk moves into place, so that no name ever holds half a blob."""

    def temporary_file_path(self) -> str:
        return str(self.name)


@transaction.atomic
def _keep(path: Path, sha256: str, size: int) -> Blob:
    # The row comes first and stays locked: a collection of garbage waits for it, and then finds it fresh.
    Blob.objects.bulk_create([Blob(sha256=sha256, size_bytes=size, held_at=clock.now())], update_conflicts=True,
                             unique_fields=["sha256"], update_fields=["held_at"])
    name = blob_name(sha256)
    if store().exists(name) and store().size(name) != size:
        store().delete(name)  # left over from a disk that lost its end
    if not store().exists(name):
        with path.open("rb") as file:
            saved = store().save(name, Written(file, name=str(path)))
        if saved != name:
            store().delete(saved)  # somebody else kept the same bytes meanwhile
    return Blob.objects.get(pk=sha256)


def open_blob(sha256: str) -> IO[bytes]:
    """The bytes of a blob, for reading. Raises FileNotFoundError."""
    return store().open(blob_name(sha256), "rb")


def kept_digest(sha256: str) -> str:
    """The SHA-256 that a blob's bytes have now; another one than its name where the disk changed them. Raises OSError.
    """
    digest = hashlib.sha256()
    with open_blob(sha256) as file:
        for chunk in read_chunks(file):
            digest.update(chunk)
    return digest.hexdigest()


def blob_path(sha256: str) -> Path:
    """The blob's file on this node, for jobs that read it from disk."""
    return Path(store().path(blob_name(sha256)))
