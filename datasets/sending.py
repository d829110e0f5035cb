"""What the commands share that send a file: reading it where it lies, a progress bar, the box's limits beforehand."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from datasets.ingest import refuse_too_large
from datasets.operations.intake import ZIP_MAGIC
from datasets.sending_images import push_with_manifest
from optimize_site.kernel.commands import NounCommand
from optimize_site.kernel.errors import InvalidInput

CHUNK = 1 << 20


def send(command: NounCommand, route: str, file: str, **query: Any) -> Any:
    """POST a whole file, the images its rows name before it. Raises DatasetTooLarge before a byte is sent."""
    with on_disk(file) as path:
        refuse_too_large(path.stat().st_size, limits(command)["maxBytes"])
        images = "" if is_archive(path) else push_with_manifest(command, path)
        return send_whole(command, route, path, images=images, **query)


def send_whole(command: NounCommand, route: str, path: Path, **query: Any) -> Any:
    """POST a file's bytes with a bar for the person watching."""
    size = path.stat().st_size
    with bar(command, size, "Sending") as watched:
        return command.client.send("POST", route, watched.passing(read_part(path, 0, size)), size, **query)


def limits(command: NounCommand) -> dict[str, int]:
    """What the box takes."""
    found: dict[str, int] = command.client.get("/v1/registry/info")["datasets"]
    return found


def is_archive(path: Path) -> bool:
    """Whether a file is a ZIP, by its first bytes."""
    with path.open("rb") as file:
        return file.read(len(ZIP_MAGIC)) == ZIP_MAGIC


def read_part(path: Path, start: int, end: int) -> Iterator[bytes]:
    """The bytes of a file between two places."""
    with path.open("rb") as file:
        file.seek(start)
        while start < end and (chunk := file.read(min(CHUNK, end - start))):
            start += len(chunk)
            yield chunk


@contextmanager
def on_disk(file: str) -> Iterator[Path]:
    """Where a file lies; `-` is standard input, kept on disk meanwhile. Raises InvalidInput."""
    if file == "-":
        with tempfile.NamedTemporaryFile() as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            kept.flush()
            yield Path(kept.name)
        return
    path = Path(file)
    try:
        path.open("rb").close()
    except OSError as error:
        raise InvalidInput(f"{path} could not be read: {error.strerror}.", code="unreadable_file") from error
    yield path


class Bar:
    """A progress bar over bytes; none where nobody watches."""

    def __init__(self, progress: Progress | None, total: int, words: str):
        self._progress = progress
        self._task = progress.add_task(words, total=total) if progress is not None else None

    def passing(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The chunks, counted as they pass."""
        for chunk in chunks:
            yield chunk
            self.add(len(chunk))

    def add(self, size: int) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.advance(self._task, size)


@contextmanager
def bar(command: NounCommand, total: int, words: str) -> Iterator[Bar]:
    """A bar on standard error, where that is a terminal and `-q` was not given."""
    if command.options.quiet or not sys.stderr.isatty():
        yield Bar(None, total, words)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(),
               TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bar(progress, total, words)
