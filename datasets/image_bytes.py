"""What an image's bytes say of themselves, and whether a job can read them.

Kind and size are told by the first bytes, so that an image that is too large is refused before a pixel is unpacked;
then all pixels are, by the library and the steps that a job takes.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MAX_BYTES = 32 * 1024 * 1024
MAX_SIDE = 16_384
MAX_PIXELS = 64_000_000
"""A few kilobytes can unpack to any number of pixels; a page scanned at 600 dots an inch has 35 million."""
PNG = b"\x89PNG\r\n\x1a\n"
PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""The bits a sample may have, by the kind of colour."""
JPEG_END, JPEG_TAIL = b"\xff\xd9", 64 * 1024
"""Some programs write more behind the end; a file that was cut short has none so near its own."""
JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD9)})
JPEG_SCAN = 0xDA
JPEG_READ = frozenset({0xC0, 0xC1, 0xC2, 0xC9, 0xCA})
"""The frames that readers read: lossless and hierarchical ones they do not."""


class ImageRefused(ValueError):
    """The bytes are no image that is read here; the text says why."""


@dataclass(frozen=True)
class ImageFacts:
    """An image's kind and its size in pixels."""

    media_type: str
    width: int
    height: int


def read_image(path: Path) -> ImageFacts:
    """What a file holds. Raises ImageRefused: no PNG, JPEG or WebP, cut short, damaged, or too large."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ImageRefused(f"has {size:,} bytes; an image has at most {MAX_BYTES:,}")
    with path.open("rb") as file:
        try:
            facts = _read(file, size)
        except (struct.error, IndexError):
            raise ImageRefused("ends in the middle") from None
    sides = (facts.width, facts.height)
    if min(sides) < 1 or max(sides) > MAX_SIDE or facts.width * facts.height > MAX_PIXELS:
        raise ImageRefused(f"is {facts.width} by {facts.height} pixels; an image has at most {MAX_SIDE:,} on a side "
                           f"and {MAX_PIXELS:,} in all")
    _unpack(path, sides)
    return facts


def _unpack(path: Path, sides: tuple[int, int]) -> None:
    """Read every pixel as a job does. Raises ImageRefused where that fails, or where the library finds other sides."""
    # Only here: a process that never sees an image, as most do, does without.
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            if image.size != sides:
                raise ImageRefused(f"is damaged: it says {sides[0]} by {sides[1]} pixels and holds "
                                   f"{image.size[0]} by {image.size[1]}")
            ImageOps.exif_transpose(image).convert("RGB")
    except ImageRefused:
        raise
    except Exception as error:  # the library raises what it comes upon, down to zlib's errors and a missing key
        raise ImageRefused(f"is damaged: its pixels cannot be read ({_in_words(error, path)})") from None


def _in_words(error: Exception, path: Path) -> str:
    return str(error).replace(f" {str(path)!r}", "").rstrip(".") or type(error).__name__


def _read(file: IO[bytes], size: int) -> ImageFacts:
    head = file.read(16)
    file.seek(0)
    if head.startswith(PNG):
        return ImageFacts("image/png", *_read_png(file))
    if head.startswith(b"\xff\xd8\xff"):
        return ImageFacts("image/jpeg", *_read_jpeg(file.read()))
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return ImageFacts("image/webp", *_read_webp(file, size))
    raise ImageRefused("is no PNG, JPEG or WebP")


def _read_png(file: IO[bytes]) -> tuple[int, int]:
    file.seek(len(PNG))
    sizes: tuple[int, int] | None = None
    has_pixels = False
    for kind, body in _png_chunks(file):
        if sizes is None and kind != b"IHDR":
            raise ImageRefused("does not open with its header")
        if kind == b"IHDR":
            sizes = _png_header(body)
        has_pixels |= kind == b"IDAT"
        if kind == b"IEND" and sizes is not None:
            if not has_pixels:
                raise ImageRefused("holds no pixel")
            return sizes
    raise ImageRefused("ends in the middle")


def _png_header(body: bytes) -> tuple[int, int]:
    width, height, depth, colour, compression, filtering, interlace = struct.unpack(">IIBBBBB", body)
    if depth not in PNG_DEPTHS.get(colour, ()) or compression or filtering or interlace > 1:
        raise ImageRefused("is damaged: its header is that of no PNG")
    return width, height


def _png_chunks(file: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    while head := file.read(8):
        length, kind = struct.unpack(">I4s", head)
        body, (checksum,) = file.read(length), struct.unpack(">I", file.read(4))
        if len(body) < length or zlib.crc32(kind + body) != checksum:
            raise ImageRefused("is damaged: a part of it does not fit its checksum")
        yield kind, body


def _read_jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while True:
        while data[at] == 0xFF and data[at + 1] == 0xFF:
            at += 1
        mark, kind = data[at], data[at + 1]
        if mark != 0xFF or kind == JPEG_SCAN:
            raise ImageRefused("is damaged: its header does not tell its size")
        if kind in JPEG_FRAMES:
            if JPEG_END not in data[max(at, len(data) - JPEG_TAIL):]:
                raise ImageRefused("ends in the middle")
            return _jpeg_frame(kind, data, at)
        at += 2 if kind in JPEG_ALONE else 2 + struct.unpack(">H", data[at + 2:at + 4])[0]


def _jpeg_frame(kind: int, data: bytes, at: int) -> tuple[int, int]:
    precision, height, width, components = struct.unpack(">BHHB", data[at + 4:at + 10])
    if kind not in JPEG_READ or precision != 8 or components not in (1, 3, 4):
        raise ImageRefused(f"is a JPEG of a kind that is not read: frame {kind - 0xC0}, {precision} bits a sample, "
                           f"{components} components")
    if bytes((0xFF, JPEG_SCAN)) not in data[at:]:
        raise ImageRefused("holds no pixel")
    return width, height


def _read_webp(file: IO[bytes], size: int) -> tuple[int, int]:
    head = file.read(30)
    if struct.unpack("<I", head[4:8])[0] + 8 > size:
        raise ImageRefused("ends in the middle")
    kind, body = head[12:16], head[20:]
    if kind == b"VP8X":
        return 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", body[6:10])
        return width & 0x3FFF, height & 0x3FFF
    raise ImageRefused("is damaged: its header does not tell its size")
