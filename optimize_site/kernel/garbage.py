"""What nothing on the box refers to any more: found by looking at every row, and removed only when it has been so for a
while.

A blob stays as long as any row of any app names its hash, except rows that only describe bytes or tell what happened.
So an app that stores a hash somewhere new is safe without a word here.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from django.apps import apps
from django.db import connection, transaction

from optimize_site.kernel.blobs import blob_name, store
from optimize_site.kernel.conf import home
from optimize_site.kernel.models import Attempt, Blob
from optimize_site.kernel.work import attempt_folder

SHA256 = re.compile(r"[0-9a-f]{64}")
ROWS_AT_ONCE = 500


@dataclass(frozen=True)
class Waste:
    """One thing that nothing refers to. `remove` gives False where something does by now."""

    kind: str
    name: str
    size_bytes: int
    since: datetime
    remove: Callable[[], bool]


Collector = Callable[[datetime], Iterator[Waste]]
COLLECTORS: list[Collector] = []
"""Each finds waste of one kind that is older than a moment. Apps add theirs when they are ready."""

BOOKKEEPING = {"kernel.Blob", "kernel.Event", "sessions.Session", "admin.LogEntry"}
"""Tables whose rows keep nothing alive: they describe bytes, or tell what happened. Apps add theirs."""

GONE: list[Callable[[str], None]] = []
"""Each is given the hash of a blob that goes, in the same transaction: for apps that note things about bytes."""


def collector(function: Collector) -> Collector:
    """Adds a collector."""
    COLLECTORS.append(function)
    return function


# Blobs ---------------------------------------------------------------------------------------------------------------


@collector
def unnamed_blobs(before: datetime) -> Iterator[Waste]:
    """Kept bytes whose hash no row names, and that nobody put or was told of since `before`."""
    rows = list(Blob.objects.filter(held_at__lt=before).order_by("pk"))
    named = named_hashes() if rows else set()
    for row in rows:
        if row.sha256 not in named:
            yield Waste("blob", row.sha256, row.size_bytes, row.held_at, partial(remove_blob, row.sha256, before))


def named_hashes() -> set[str]:
    """Everything written like a SHA-256 in any row of any table but the bookkeeping."""
    found: set[str] = set()
    for model in apps.get_models():
        if model._meta.managed and model._meta.label not in BOOKKEEPING:
            for text in _rows_as_text(model._meta.db_table):
                found.update(SHA256.findall(text))
    return found


def _rows_as_text(table: str) -> Iterator[str]:
    """Every row of a table with all its columns, some at a time."""
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        # Taken out with Python's expressions: Postgres takes seconds for what they find in a moment.
        cursor.execute(f"SELECT r::text FROM {connection.ops.quote_name(table)} r")  # noqa: S608 - a model's own name
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield from (text for text, in rows)


@transaction.atomic
def remove_blob(sha256: str, before: datetime) -> bool:
    """Remove a blob that nobody put or was told of since `before`; False where somebody did, or is doing so.

    Whoever puts or holds bytes writes this row first and waits for this lock, so that it finds them either way.
    """
    row = Blob.objects.select_for_update(skip_locked=True).filter(pk=sha256, held_at__lt=before).first()
    if row is None:
        return False
    for note_gone in GONE:
        note_gone(sha256)
    row.delete()
    store().delete(blob_name(sha256))
    return True


@collector
def stray_files(before: datetime) -> Iterator[Waste]:
    """Files among the blobs that no blob is about, left by a process that died between the two."""
    known = set(Blob.objects.values_list("pk", flat=True))
    for name in _stored_names():
        sha256 = name.rpartition("/")[2]
        if sha256 in known:
            continue
        since = store().get_modified_time(name)
        if since < before:
            yield Waste("stray file", name, store().size(name), since, partial(_remove_stray, name))


def _stored_names() -> Iterator[str]:
    try:
        folders = store().listdir("")[0]
    except FileNotFoundError:
        return
    for folder in sorted(folders):
        yield from (f"{folder}/{name}" for name in sorted(store().listdir(folder)[1]))


@transaction.atomic
def _remove_stray(name: str) -> bool:
    sha256 = name.rpartition("/")[2]
    if SHA256.fullmatch(sha256) is None:
        store().delete(name)
        return True
    # The row keeps out who would put the same bytes until this file is gone.
    row, is_new = Blob.objects.get_or_create(sha256=sha256, defaults={"size_bytes": 0})
    if is_new:
        store().delete(name)
        row.delete()
    return is_new


# Folders -------------------------------------------------------------------------------------------------------------


@collector
def scratch_leftovers(before: datetime) -> Iterator[Waste]:
    """Files on their way in whose process died."""
    yield from old_folders("scratch file", home() / "scratch", before, is_used=lambda path: False)


@collector
def unknown_attempts(before: datetime) -> Iterator[Waste]:
    """Folders of attempts that the box does not know."""
    known = set(Attempt.objects.values_list("pk", flat=True))
    place = attempt_folder("x").parent
    yield from old_folders("attempt folder", place, before, is_used=lambda path: path.name in known)


def old_folders(kind: str, place: Path, before: datetime, *, is_used: Callable[[Path], bool]) -> Iterator[Waste]:
    """What lies directly in `place`, was last changed before a moment, and is not used."""
    for path in sorted(place.iterdir()) if place.is_dir() else []:
        found = waste_at(kind, path, before)
        if found is not None and not is_used(path):
            yield found


def waste_at(kind: str, path: Path, before: datetime) -> Waste | None:
    """A file or folder as waste; None where something in it changed since `before`, or it is gone."""
    try:
        files = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
        found = [file.lstat() for file in files]
    except FileNotFoundError:
        return None
    since = datetime.fromtimestamp(max(state.st_mtime for state in found), UTC)
    if since >= before:
        return None
    size = sum(state.st_size for file, state in zip(files, found, strict=True) if file.is_file())
    return Waste(kind, str(path.relative_to(home())), size, since, partial(_remove_path, path))


def _remove_path(path: Path) -> bool:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return True
