"""Small JSON files that are always whole: written beside, then renamed."""

import json
import os
from pathlib import Path
from typing import Any


def write_document(path: Path, document: dict[str, Any]) -> None:
    """Replace `path` by `document` in one step, readable by its owner alone."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    beside.replace(path)


def read_document(path: Path) -> dict[str, Any]:
    """The document in `path`; empty where there is none that can be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
