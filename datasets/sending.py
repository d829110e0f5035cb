"""What the commands share that send a file: reading it where it lies, a progress bar, the box's limit beforehand."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from rich.console import Console
from rich.progress import wrap_file

from datasets import ingest
from datasets.ingest import Examined, refuse_too_large
from optimize_site.kernel.commands import NounCommand
from optimize_site.kernel.errors import InvalidInput


def send(command: NounCommand, path: str, file: str, **query: Any) -> Any:
    """POST a file's bytes with a bar for the person watching. Raises DatasetTooLarge before a byte is sent."""
    with opened(file) as (stream, size):
        limit = command.client.get("/v1/registry/info")["datasets"]["maxBytes"]
        refuse_too_large(size, limit)
        if command.options.quiet or not sys.stderr.isatty():
            return command.client.send_file(path, stream, **query)
        with wrap_file(stream, size, description="Sending", console=Console(stderr=True), transient=True) as watched:
            return command.client.send_file(path, watched, **query)


def examine_file(file: str) -> Examined:
    """Examine a file here, without a box. Raises DatasetInvalid, InvalidInput."""
    with on_disk(file) as path:
        return ingest.examine_file(path)


@contextmanager
def on_disk(file: str) -> Iterator[Path]:
    """Where a file lies; `-` is standard input, kept on disk meanwhile. Raises InvalidInput."""
    if file == "-":
        with tempfile.NamedTemporaryFile() as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            kept.flush()
            yield Path(kept.name)
        return
    with _opened(Path(file)):
        yield Path(file)


@contextmanager
def opened(file: str) -> Iterator[tuple[BinaryIO, int]]:
    """A file and its size; `-` is standard input, kept on disk first because a body states its length."""
    if file == "-":
        with tempfile.TemporaryFile() as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
            size = kept.tell()
            kept.seek(0)
            yield cast(BinaryIO, kept), size
        return
    with _opened(Path(file)) as stream:
        yield stream, Path(file).stat().st_size


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidInput(f"{path} could not be read: {error.strerror}.", code="unreadable_file") from error
