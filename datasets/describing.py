"""Writes the description of prepared token rows: what made them, and what their files hold."""

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets.formats.prepared import DESCRIPTOR, FORMAT, SUFFIX, counts_of, measured
from optimize_site.kernel.archives import pack_files
from optimize_site.kernel.errors import InvalidInput


@dataclass(frozen=True)
class MadeWith:
    """The tokenizer and the chat template that rows were made with; None: they were rendered without one."""

    repository: str
    revision: str
    chat_template_sha256: str | None


def describe_files(files: Mapping[str, Path], made_with: MadeWith) -> dict[str, Any]:
    """The description of files of rows by their names. Raises DatasetInvalid naming file and row."""
    names = list(files)
    found = measured(names, [files[name] for name in names])
    return {"format": FORMAT,
            "tokenizer": {"repository": made_with.repository, "revision": made_with.revision},
            "chatTemplateSha256": made_with.chat_template_sha256} | counts_of(dict(zip(names, found, strict=True)))


def named_files(paths: Sequence[str]) -> dict[str, Path]:
    """The files to describe by the names they will have in the archive, in their order. Raises InvalidInput."""
    files: dict[str, Path] = {}
    for path in map(Path, paths):
        if not path.is_file() or path.suffix != SUFFIX:
            raise InvalidInput(f"{path} is no file that ends in {SUFFIX}.", code="unreadable_file")
        if path.name in files:
            raise InvalidInput(f"Two files are called {path.name}.", code="same_name", hint="Rename one of them.")
        files[path.name] = path
    return dict(sorted(files.items()))


def template_sha256(path: Path) -> str:
    """The digest of a chat template that lies in a file. Raises InvalidInput."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InvalidInput(f"{path} could not be read: {error.strerror}.", code="unreadable_file") from error


def write_description(document: Mapping[str, Any], files: Mapping[str, Path], out: Path) -> None:
    """Write the description alone, or where `out` ends in .zip the archive to register, with the files in it."""
    text = json.dumps(document, indent=2) + "\n"
    if out.suffix != ".zip":
        out.write_text(text)
        return
    beside = out.with_name(f".{out.name}.{DESCRIPTOR}")
    beside.write_text(text)
    try:
        with out.open("wb") as target:
            pack_files({DESCRIPTOR: beside, **files}, target)
    except zipfile.LargeZipFile as error:
        raise InvalidInput(f"The files do not fit one archive: {error}.", code="too_large",
                           hint="Make several datasets of them.") from error
    finally:
        beside.unlink()
