"""The confined process's work: put the walls up, import the bundle, say what its function takes, and score what comes.

Frames pass over one socket, each behind its length in four bytes. In come lists of items as `marshal` writes them, from
the one who started this; out goes JSON, which whoever reads it need not trust: a list of entries behind the number of
items that were answered before. How many items were begun stands in
shared memory, so that an end without a word can be laid at the door of the item that brought it.
"""

import gc
import json
import marshal
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from .calling import Call, NoFunction, load
from .confine import confine
from .kernel import NoWall

LENGTH, BEGUN = struct.Struct("<I"), struct.Struct("<Q")
HELD_SECONDS, HELD_ENTRIES = 0.005, 128


def main(written: str) -> None:
    """Serve until the other side closes. Never returns into the interpreter's own ending, which belongs to the
    bundle."""
    configuration = json.loads(written)
    channel = Channel(configuration["channel"])
    begun = mmap.mmap(configuration["begun"], BEGUN.size)
    os.close(configuration["begun"])
    try:
        confine(configuration)
        if not configuration["module"]:
            channel.say({"ready": True})
        else:
            _serve(channel, configuration, begun)
    except NoWall as error:
        channel.say({"ready": False, "wall": error.wall, "reason": error.reason})
    except NoFunction as error:
        channel.say({"ready": False, "code": error.code, "reason": error.reason, "hint": error.hint})
    os._exit(0)


def _serve(channel: "Channel", configuration: dict[str, Any], begun: mmap.mmap) -> None:
    clock, mark = time.monotonic, BEGUN.pack_into
    call = Call(load(configuration["folder"], configuration["module"], configuration["function"]))
    channel.say({"ready": True, "takes": call.takes, "isBatch": call.is_batch, "isAsync": call.is_async})
    gc.freeze()
    count = 0
    while (items := channel.hear()) is not None:
        said, held = clock(), [count]
        for entry in call.many(items) if call.is_batch else _singly(items, call.one, count, mark, begun):
            held.append(entry)
            count += 1
            if len(held) > HELD_ENTRIES or clock() - said > HELD_SECONDS:
                channel.say(held)
                said, held = clock(), [count]
        if len(held) > 1:
            channel.say(held)


def _singly(items: list[Any], one: Callable[[Any], Any], count: int, mark: Callable[..., None],
            begun: mmap.mmap) -> Iterator[Any]:
    for number, item in enumerate(items, count + 1):
        mark(begun, 0, number)
        yield one(item)


class Channel:
    """The socket to whoever started this process."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        # What writes and reads is taken hold of now: the bundle may put other things under these names.
        self._encode, self._decode = json.JSONEncoder(separators=(",", ":")).encode, marshal.loads
        self._write, self._read = os.write, os.read

    def say(self, document: Any) -> None:
        """Send a frame; gone is gone."""
        body = self._encode(document).encode()
        rest = memoryview(LENGTH.pack(len(body)) + body)
        try:
            while rest:
                rest = rest[self._write(self._descriptor, rest):]
        except OSError:
            os._exit(1)

    def hear(self) -> Any:
        """The next frame; None at the end."""
        head = self._exactly(LENGTH.size)
        return self._decode(self._exactly(LENGTH.unpack(head)[0])) if head else None

    def _exactly(self, size: int) -> bytes:
        pieces, missing = [], size
        while missing:
            piece = self._read(self._descriptor, min(missing, 1 << 20))
            if not piece:
                return b""
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)
