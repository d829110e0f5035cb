"""Identity by content: canonical JSON (RFC 8785) and SHA-256."""

import hashlib
from typing import Any

import rfc8785


def canonical_json(value: Any) -> bytes:
    """The one byte form of a JSON value, whatever the key order or spelling of numbers it came in."""
    return rfc8785.dumps(value)


def sha256_json(value: Any) -> str:
    """Hex SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value)).hexdigest()
