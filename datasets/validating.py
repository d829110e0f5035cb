"""Looks at a file as registration would, on this machine and without a box."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets import ingest
from datasets.formats import FormatFacts, shown_details
from datasets.images import hashed_images
from datasets.operations.intake import ZIP_MAGIC, archive_format
from datasets.pairs import FORMAT as PREFERENCE
from datasets.sending_images import images_beside


def check_file(path: Path) -> dict[str, Any]:
    """What a good file holds, as JSON; images are looked for beside it. Nothing is kept.

    Raises DatasetInvalid, ArchiveRefused, ImageInvalid as registration does.
    """
    with path.open("rb") as file:
        is_archive = file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
    return _check_archive(path) if is_archive else _check_rows(path)


def _check_rows(path: Path) -> dict[str, Any]:
    found = ingest.examine_file(path)
    facts = _with_images_beside(found.facts(), path)
    return _document(path, found.stretch.format, found.num_examples, facts) | {
        "contentHash": found.identity.rows_hash(hashed_images(facts)), "blankLines": found.stretch.num_blank_lines}


def _with_images_beside(facts: FormatFacts, path: Path) -> FormatFacts:
    if not facts.image_lines:
        return facts
    images = [{"path": image.path, "sha256": image.sha256, "bytes": image.file.stat().st_size}
              for image in images_beside(path)]
    return replace(facts, num_images=len(images), details={"images": images})


def _check_archive(path: Path) -> dict[str, Any]:
    with archive_format(path).read(path) as archive:
        return _document(path, archive.format, archive.num_examples, archive.facts)


def _document(path: Path, format: str, number: int, facts: FormatFacts) -> dict[str, Any]:
    return {"valid": True, "format": format, "contentHash": None, "exampleCount": number,
            "pairCount": number if format == PREFERENCE else None, "toolRows": facts.num_tool_rows,
            "imageCount": facts.num_images, "blankLines": 0, "sizeBytes": path.stat().st_size,
            "details": shown_details(facts.details), "statistics": facts.statistics, "findings": facts.findings}
