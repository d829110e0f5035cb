"""Registers a file by sending its shards; what the box holds is not sent again.

The box may hold a shard where it holds a file of rows of the very same size. Such a shard is hashed, and announced by
its hash; the others are announced by their size, and read once, while they are sent.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from datasets.cutting import Cut, count_lines, plan_shards
from datasets.errors import ShardMismatch
from datasets.ingest import refuse_other_file, refuse_too_large
from datasets.lines import LineBatches
from datasets.sending import Bar, bar, is_archive, limits, read_part, send_whole
from datasets.sending_images import push_with_manifest
from datasets.stretches import first_row, refuse_other_form
from optimize_site.kernel.commands import NounCommand
from optimize_site.kernel.errors import OperationError, Unavailable

ROUTES = "/v1/registry/dataset-uploads"
HEAD_BYTES = 64 * 1024
HASHED_AT_ONCE = 4
RETRIES, MOST_SECONDS = 8, 30.0
T = TypeVar("T")


def register(command: NounCommand, reference: str, path: Path, shard_bytes: int | None, stated: dict[str, Any]) -> Any:
    """Register a file of rows or an archive; gives the version's document.

    A run of it that was stopped goes on where it was. Raises FileDoesNotFit and DatasetTooLarge before a byte is sent,
    naming the shard size that fits, ShardMismatch for a file that changes meanwhile, and what registering raises.
    """
    if is_archive(path):
        refuse_too_large(path.stat().st_size, limits(command)["maxBytes"])
        query = stated | ({"lineage": json.dumps(stated["lineage"])} if "lineage" in stated else {})
        return send_whole(command, f"/v1/registry/datasets/{reference}/versions", path, **query)
    before = _written(path)
    cuts = plan(command, path, shard_bytes)
    upload = _open(command, reference, path, cuts, stated)
    if upload["missing"]:
        _send(command, path, cuts, upload)
        if _written(path) != before:
            raise ShardMismatch(f"{path.name} changed while it was sent.", hint="Run the command again once nothing "
                                "writes to the file.")
        upload = _patiently(lambda: command.client.get(f"{ROUTES}/{upload['id']}"))
    return _complete(command, path, upload)


def _written(path: Path) -> tuple[int, int]:
    """How large a file is and when it was last written. It is read once, so that no hash tells what it was before."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def plan(command: NounCommand, path: Path, shard_bytes: int | None) -> list[Cut]:
    """How a file of rows would be sent. Raises DatasetInvalid where its beginning shows that it is none."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    refuse_other_file(head)
    batches = LineBatches()
    for batch in (batches.feed(head), batches.finish()):
        row = first_row(batch) if batch is not None else None
        if row is not None:
            refuse_other_form(row)
            break
    return plan_shards(path, shard_bytes, limits(command))


def _open(command: NounCommand, reference: str, path: Path, cuts: Sequence[Cut], stated: dict[str, Any]) -> Any:
    hashes = _hashes(command, path, cuts)
    shards = [{"sha256": hashes.get(cut, ""), "bytes": cut.size} for cut in cuts]
    body = {"reference": reference, "shards": shards, **stated}
    return _patiently(lambda: command.client.post(ROUTES, body))


def _hashes(command: NounCommand, path: Path, cuts: Sequence[Cut]) -> dict[Cut, str]:
    """The hashes of the shards that the box may hold."""
    sizes = sorted({cut.size for cut in cuts})
    held = set(_patiently(lambda: command.client.post(f"{ROUTES}/sizes", {"bytes": sizes}))["held"])
    read = [cut for cut in cuts if cut.size in held]
    with bar(command, sum(cut.size for cut in read), "Reading") as watched, ThreadPoolExecutor(
            min(HASHED_AT_ONCE, len(os.sched_getaffinity(0)))) as threads:
        return dict(zip(read, threads.map(lambda cut: _hash(path, cut, watched), read), strict=True))


def _hash(path: Path, cut: Cut, watched: Bar) -> str:
    digest = hashlib.sha256()
    for chunk in watched.passing(read_part(path, cut.start, cut.end)):
        digest.update(chunk)
    return digest.hexdigest()


def _send(command: NounCommand, path: Path, cuts: Sequence[Cut], upload: Any) -> None:
    missing = set(upload["missing"])
    held = sum(item["bytes"] for item in upload["shards"] if item["path"] not in missing)
    if held and missing:
        command.say(f"{len(cuts) - len(missing)} of {len(cuts)} shards are there already.")
    with bar(command, path.stat().st_size, "Sending") as watched:
        watched.add(held)
        for item, cut in zip(upload["shards"], cuts, strict=True):
            if item["path"] in missing:
                _send_one(command, path, cut, item, f"{ROUTES}/{upload['id']}/shards/{quote(item['path'])}", watched)


def _send_one(command: NounCommand, path: Path, cut: Cut, item: Any, route: str, watched: Bar) -> None:
    def put() -> None:
        chunks, sent = watched.passing(read_part(path, cut.start, cut.end)), hashlib.sha256()
        if item["sha256"] or command.client.is_here:
            command.client.send("PUT", route, chunks, cut.size)
            return
        found = command.client.send("PUT", route, _hashing(chunks, sent), cut.size)
        if found["sha256"] != sent.hexdigest():
            raise ShardMismatch(f"{item['path']} was sent as {sent.hexdigest()[:12]} and came as "
                                f"{found['sha256'][:12]}.", hint="Run the command again: bytes changed on the way.")

    try:
        _patiently(put)
    except OperationError as error:
        raise _with_lines_of(path, cut, error) from error


def _hashing(chunks: Iterator[bytes], digest: Any) -> Iterator[bytes]:
    """The chunks, hashed as they pass."""
    for chunk in chunks:
        digest.update(chunk)
        yield chunk


def _complete(command: NounCommand, path: Path, upload: Any) -> Any:
    images = push_with_manifest(command, path) if upload["namesImages"] else ""
    return _patiently(lambda: command.client.post(f"{ROUTES}/{upload['id']}/complete", {"images": images}))


def _patiently(ask: Callable[[], T]) -> T:
    """Ask again while the box does not answer: it may be starting anew. What came through before is not lost."""
    for attempt in range(RETRIES):
        try:
            return ask()
        except Unavailable:
            time.sleep(min(0.5 * 2.0**attempt, MOST_SECONDS))
    return ask()


def _with_lines_of(path: Path, cut: Cut, error: OperationError) -> OperationError:
    """The refusal of a shard with its lines named as those of the file it was cut from."""
    if cut.start and error.problems:
        before = count_lines(path, cut.start)
        error.problems = tuple(
            replace(problem, path=re.sub(r"^line (\d+) of examples-\d+\.jsonl",
                                         lambda found: f"line {before + int(found[1])} ({found[0]})",
                                         problem.path)) for problem in error.problems)
    return error
