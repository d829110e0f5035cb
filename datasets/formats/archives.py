"""What the formats that are sent as a ZIP share: its objects, and its descriptor read strictly."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from datasets.errors import DatasetInvalid
from datasets.formats import ArchiveObject
from datasets.strict_json import LineRefused, parse_line
from optimize_site.kernel.archives import Limits, examine_archive, read_entry
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import Problem

UNPACKED_TIMES = 4
"""How many times the largest upload an archive may unpack to."""
MAX_DESCRIPTOR_BYTES = 1 << 20
NESTED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"\x28\xb5\x2f\xfd")


def refuse(problems: list[Problem], number: int | None = None) -> NoReturn:
    """Raises DatasetInvalid over the first problems of `number`."""
    number = len(problems) if number is None else number
    more = f" There are {number - 1} more." if number > 1 else ""
    raise DatasetInvalid(f"{problems[0].path}: {problems[0].message}{more}",
                         hint=f"{problems[0].hint} Nothing was registered.".strip(), problems=problems, badLines=number,
                         moreBadLines=max(0, number - len(problems)))


def refuse_one(path: str, code: str, message: str, hint: str = "") -> NoReturn:
    """Raises DatasetInvalid over one problem."""
    refuse([Problem(path, code, message, hint)])


def sizes(path: Path) -> dict[str, int]:
    """Each file of an archive and its bytes, in order of their names, after all of it was looked through.

    Raises ArchiveRefused; DatasetInvalid for an archive inside it.
    """
    limit = int(setting("trainer.datasets.max-bytes"))
    entries = examine_archive(path, Limits(limit, limit * UNPACKED_TIMES))
    files = {entry.path: entry.size_bytes for entry in sorted(entries, key=lambda entry: entry.path)
             if not entry.is_folder}
    for name in files:
        if next(read_entry(path, name), b"").startswith(NESTED):
            refuse_one(name, "nested_archive", "The file is an archive inside the archive.", "Pack what it holds.")
    return files


def object_of(path: Path, name: str) -> ArchiveObject:
    """One file of an archive as an object of a version."""
    return ArchiveObject(name, partial(read_entry, path, name))


def read_descriptor(path: Path, name: str, size: int) -> dict[str, Any]:
    """The JSON object a file of an archive holds. Raises DatasetInvalid."""
    if size > MAX_DESCRIPTOR_BYTES:
        refuse_one(name, "descriptor_too_large", f"The file has {size:,} bytes; a description has at most "
                   f"{MAX_DESCRIPTOR_BYTES:,}.")
    try:
        found = parse_line(b"".join(read_entry(path, name)))
    except LineRefused as error:
        refuse([Problem(_inside(name, error.problem.path), error.problem.code, error.problem.message,
                        error.problem.hint)])
    if not isinstance(found, dict):
        refuse_one(name, "not_an_object", "The description is no JSON object.")
    return dict(found)


def _inside(name: str, path: str) -> str:
    return f"{name}: {path}" if path else name


def unpack(path: Path, names: list[str], folder: Path) -> Iterator[Path]:
    """Write files of an archive into a folder under plain numbers, and give where each lies."""
    for number, name in enumerate(names):
        target = folder / str(number)
        with target.open("wb") as file:
            for chunk in read_entry(path, name):
                file.write(chunk)
        yield target
