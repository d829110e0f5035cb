"""Reads an attempt's events from where it stopped, whole lines only."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
READ_BYTES = 1 << 20
ENDINGS = {"finished", "failure", "stopped"}


def read_events(folder: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """The events after byte `offset`, up to a mebibyte of them, and the offset behind the last whole line."""
    try:
        with (folder / "events.jsonl").open("rb") as file:
            file.seek(offset)
            chunk = file.read(READ_BYTES)
    except FileNotFoundError:
        return [], offset
    whole, _, _ = chunk.rpartition(b"\n")
    if not whole:
        return [], offset
    return list(_parse(whole)), offset + len(whole) + 1


def _parse(lines: bytes) -> Iterator[dict[str, Any]]:
    for line in lines.split(b"\n"):
        try:
            event = json.loads(line)
        except ValueError:
            log.warning("an event could not be read", extra={"action": "event_dropped", "line": line[:200].decode(
                errors="replace")})
            continue
        if isinstance(event, dict) and "type" in event:
            yield event


def ending(folder: Path) -> dict[str, Any] | None:
    """The last event that says how the job ended, or None."""
    found, offset = None, 0
    while True:
        events, after = read_events(folder, offset)
        if after == offset:
            return found
        found = next((event for event in reversed(events) if event["type"] in ENDINGS), found)
        offset = after


def last_pass(folder: Path) -> dict[str, Any]:
    """`pass`, what a job on a processor announced of the pass it was at; nothing where there was none."""
    try:
        return {"pass": json.loads((folder / "pass.json").read_text())}
    except (OSError, ValueError):
        return {}


def last_words(path: Path, num_bytes: int = 4000) -> str:
    """The end of a log file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - num_bytes))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
