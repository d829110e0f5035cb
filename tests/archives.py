"""Small files of every format, made on the spot: images, archives, Parquet."""

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

DIGEST = "d" * 64
DESCRIPTOR = {"tokenizer": {"repository": "acme/tiny", "revision": "rev-1"}, "chatTemplateSha256": DIGEST}


def png(width: int = 3, height: int = 2, colour: bytes = b"\1\2\3") -> bytes:
    """A PNG of one colour."""
    rows = b"".join(b"\0" + colour * width for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b""))


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """One part of a PNG with its checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def picture(kind: str, width: int, height: int, mode: str = "RGB", **options: Any) -> bytes:
    """An image with pixels that differ, as a program writes it."""
    from PIL import Image

    held = io.BytesIO()
    Image.radial_gradient("L").resize((width, height)).convert(mode).save(held, kind, **options)
    return held.getvalue()


def jpeg(width: int, height: int, frame: int = 0xC2) -> bytes:
    """A JPEG's markers without a picture: its size stands behind a comment and a thumbnail's end."""
    comment = b"\xff\xfe\x00\x06\xff\xd9ab"
    size = bytes([0xFF, frame, 0, 11, 8]) + struct.pack(">HH", height, width) + b"\1\1\x11\0"
    return b"\xff\xd8" + comment + size + b"\xff\xda\x00\x02data\xff\xd9"


def webp(kind: bytes, body: bytes) -> bytes:
    """A WebP's first part."""
    part = kind + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(part)) + b"WEBP" + part


def archive(files: dict[str, Any], **options: Any) -> bytes:
    """A ZIP of files by their names; what is no bytes is written as JSON."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", **options) as target:
        for name, content in files.items():
            target.writestr(name, content if isinstance(content, bytes | str) else json.dumps(content))
    return held.getvalue()


def token_rows(rows: list[tuple[Any, Any]], **columns: Any) -> bytes:
    """Parquet of rows, each its tokens and its mask."""
    import pyarrow
    from pyarrow import parquet

    held = io.BytesIO()
    table = pyarrow.table({"input_ids": [ids for ids, _ in rows], "loss_mask": [mask for _, mask in rows], **columns})
    parquet.write_table(table, held)
    return held.getvalue()


GOOD_TOKENS = [([1, 2, 3], [0, 1, 1]), ([4, 5], [0, 1])]


def prepared(tokens: list[tuple[Any, Any]] | None = None, **changes: Any) -> bytes:
    """A ZIP of prepared token rows."""
    return archive({"prepared.json": DESCRIPTOR | changes, "rows.parquet": token_rows(tokens or GOOD_TOKENS)})


def items(**files: Any) -> bytes:
    """A ZIP of two evaluation items over a fixture."""
    return archive({"dataset.json": {"format": "eval-items-v1", "fixture": "fixtures/shop-db.json"},
                    "items.jsonl": '{"id": "a", "input": "?"}\n{"id": "b", "input": "!"}\n',
                    "fixtures/shop-db.json": {"orders": []}} | files)


def kept(folder: Path, data: bytes, name: str = "file.zip") -> Path:
    """Bytes as a file."""
    path = folder / name
    path.write_bytes(data)
    return path
