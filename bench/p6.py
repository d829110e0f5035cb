"""P6: bytes a second that are registered, against one pass of SHA-256, a fast JSON parser and a look at the roles."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import orjson

from bench.measure import Arm, arguments, interleave, judge, load_before, seconds
from bench.registering import MEBIBYTE, forget, fresh, register, scratch_box, template

LIMIT = 0.7
ROLES = frozenset(("system", "user", "assistant", "tool"))


def main(argv: list[str]) -> int:
    """Ours is the whole command: cut, hashes that announce the shards, sending, checking, storing, committing."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--mebibytes", type=int, default=512)
    parser.add_argument("--shard-size", default="", help="as `register` takes it")
    options = parser.parse_args(argv)
    with scratch_box() as home:
        source = template(home, options.mebibytes * MEBIBYTE)
        files = iter(range(1, 2 * options.repeats + 10))
        more = ["--shard-size", options.shard_size] if options.shard_size else []
        ours = Arm("registered MB/s", lambda: _registered(home, fresh(source, next(files)), more))
        theirs = Arm("hash, parse, roles MB/s", lambda: _passed(fresh(source, next(files))))
        register(fresh(source, 0))  # the first import and the first page of everything are nobody's
        load = load_before()
        interleave(ours, theirs, options.repeats)
        return judge("P6", ours, theirs, limit=LIMIT, load=load, max_load=options.max_load, more=True)


def _registered(home: Path, path: Path, more: list[str]) -> float:
    size, took = path.stat().st_size, seconds(lambda: register(path, *more))
    path.unlink()
    forget(home)
    os.sync()
    return size / 1e6 / took


def _passed(path: Path) -> float:
    size, took = path.stat().st_size, seconds(lambda: one_pass(path))
    path.unlink()
    os.sync()
    return size / 1e6 / took


def one_pass(path: Path) -> str:
    """The work nobody can leave out, in one thread."""
    digest, rest = hashlib.sha256(), b""
    with path.open("rb") as file:
        while chunk := file.read(MEBIBYTE):
            digest.update(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                for message in orjson.loads(line)["messages"]:
                    if message["role"] not in ROLES:
                        raise ValueError(f"a role of {message['role']}")
    return digest.hexdigest()
