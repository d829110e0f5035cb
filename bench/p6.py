"""P6: bytes a second that are registered, against one pass of SHA-256, a fast JSON parser and a look at the roles."""

from __future__ import annotations

import hashlib
import os
import resource
import statistics
from collections.abc import Callable
from pathlib import Path

import orjson

from bench.measure import Arm, arguments, interleave, judge, load_before, seconds
from bench.p23 import processor_seconds, tree
from bench.registering import MEBIBYTE, forget, fresh, register, scratch_box, template

LIMIT = 0.7
ROLES = frozenset(("system", "user", "assistant", "tool"))


def main(argv: list[str]) -> int:
    """Ours is the whole command: cut, hashes that announce the shards, sending, checking, storing, committing."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--mebibytes", type=int, default=512)
    parser.add_argument("--shard-size", default="", help="as `register` takes it")
    options = parser.parse_args(argv)
    load = load_before()
    with scratch_box() as home:
        source = template(home, options.mebibytes * MEBIBYTE)
        files = iter(range(1, 2 * options.repeats + 10))
        more = ["--shard-size", options.shard_size] if options.shard_size else []
        spent = Spent(), Spent()
        ours = Arm("registered MB/s", lambda: _registered(home, fresh(source, next(files)), more, spent[0]))
        theirs = Arm("hash, parse, roles MB/s", lambda: _passed(fresh(source, next(files)), spent[1]))
        register(fresh(source, 0))  # the first import and the first page of everything are nobody's
        interleave(ours, theirs, options.repeats)
        cpu = [statistics.median(one.seconds) for one in spent]
        print(f"  processor time {cpu[0]:.2f} s against {cpu[1]:.2f} s a file: {cpu[0] / cpu[1]:.2f}")
        return judge("P6", ours, theirs, limit=LIMIT, load=load, max_load=options.max_load, more=True)


class Spent:
    """Processor time of this process and of its helpers, those that ended and those that wait, run by run."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on(self, run: Callable[[], object]) -> None:
        before = self._now()
        run()
        self.seconds.append(self._now() - before)

    def _now(self) -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used) + processor_seconds(tree(os.getpid())[1:])


def _registered(home: Path, path: Path, more: list[str], spent: Spent) -> float:
    os.sync()  # the file was just written, and the disk has but one way in
    size, took = path.stat().st_size, seconds(lambda: spent.on(lambda: register(path, *more)))
    path.unlink()
    forget(home)
    os.sync()
    return size / 1e6 / took


def _passed(path: Path, spent: Spent) -> float:
    os.sync()
    size, took = path.stat().st_size, seconds(lambda: spent.on(lambda: one_pass(path)))
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
