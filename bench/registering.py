"""What the bars of registration share: a scratch box inside this process, and files of rows that it never saw."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

from bench.material import EXAMPLES

MARK = b"@@@@@@@@"
MEBIBYTE = 1 << 20


@contextmanager
def scratch_box() -> Iterator[Path]:
    """A state folder and a database of their own, beside the one that DATABASE_URL names; gives the folder."""
    home = Path(tempfile.mkdtemp(prefix="bench-registering-"))
    os.environ |= {"OPTIMIZE_HOME": str(home), "DJANGO_SETTINGS_MODULE": "optimize_site.settings"}
    import django

    django.setup()
    from django.db import connection

    connection.creation.create_test_db(verbosity=0)
    try:
        yield home
    finally:
        connection.creation.destroy_test_db(os.environ.get("DATABASE_URL", ""), verbosity=0)
        shutil.rmtree(home, ignore_errors=True)


def template(folder: Path, size: int) -> Path:
    """A file of about so many bytes: the example's rows over and over, each with a place for what makes it differ."""
    lines, path, written, number = (EXAMPLES / "train.jsonl").read_bytes().splitlines(), folder / "template", 0, 0
    with path.open("wb") as file:
        while written < size:
            block = b"".join(line.replace(b'"content": "', b'"content": "' + MARK + b"%08d " % (number + place), 1)
                             + b"\n" for place, line in enumerate(lines))
            number += len(lines)
            written += file.write(block)
    return path


def fresh(source: Path, number: int) -> Path:
    """The template with another word in every row, so that no byte of it was registered before."""
    path = source.with_name(f"rows-{number}.jsonl")
    with source.open("rb") as read, path.open("wb") as file:
        for line in read:
            file.write(line.replace(MARK, b"%08d" % number))
    return path


def register(path: Path, *more: str) -> None:
    """`registry datasets register`, in this process."""
    from registry.management.commands.registry import Command

    with redirect_stdout(StringIO()):
        status = Command().run(["datasets", "register", "bench/rows", "-f", str(path), "-q", *more])
    if status:
        sys.exit(f"registering {path} ended with {status}")


def forget(home: Path) -> None:
    """Remove what was registered, so that the disk does not fill."""
    from datasets.models import ExampleSet, Shard, Upload
    from optimize_site.kernel.models import Blob
    from registry.models import Artifact, Version

    for model in (Upload, Shard, Version, Artifact, ExampleSet, Blob):
        model.objects.all().delete()
    shutil.rmtree(home / "blobs", ignore_errors=True)
