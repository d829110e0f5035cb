"""Which code a process runs: a digest of this package's files, by which a prepared process of older code is known."""

from __future__ import annotations

import hashlib
from pathlib import Path


def code_version(package: Path = Path(__file__).parent) -> str:
    """SHA-256 over the names and bytes of the package's Python files."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()
