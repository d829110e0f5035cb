"""TensorBoard's event files: records of serialized `Event` messages, each framed by its length and two checksums.

Written here by hand, because the few fields that scalars need are a page, and the library brings its own numerical
stack. Pure: numbers in, bytes out.
"""

import struct
from collections.abc import Mapping

VERSION = "brain.Event:2"
"""The first record of a file. Its readers drop what a restart takes back, see `restart`."""
POLYNOMIAL = 0x82F63B78
MASK = 0xA282EAD8


def header(at: float) -> bytes:
    """The record that a file begins with; `at` is in unix seconds, here and below."""
    return record(_double(1, at) + _text(3, VERSION))


def scalars(at: float, step: int, values: Mapping[str, float]) -> bytes:
    """A record of the figures of one step, by tag."""
    summary = b"".join(_bytes(1, _text(1, tag) + _float(2, value)) for tag, value in values.items())
    return record(_double(1, at) + _number(2, step) + _bytes(5, summary))


def restart(at: float, step: int) -> bytes:
    """A record that takes back whatever the file says of `step` and later ones: they were trained again."""
    return record(_double(1, at) + _number(2, step) + _bytes(7, _number(1, 1)))


def record(data: bytes) -> bytes:
    """A record's frame around its bytes."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def masked_crc(data: bytes) -> int:
    """The checksum of a frame: CRC-32C, turned and shifted so that a checksum of checksums is none of its own."""
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + MASK) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """The Castagnoli checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(_table_entry(byte) for byte in range(256))


# Protocol buffers' wire format: a key of field and kind, then the value ----------------------------------------------


def _varint(number: int) -> bytes:
    number &= 0xFFFFFFFFFFFFFFFF
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)
