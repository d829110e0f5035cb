"""A real box for the bars that need one: up in a scratch folder with the tiny model, down and gone afterwards."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e import running
from tests.e2e.http import Http


@contextmanager
def scratch_box(name: str) -> Iterator[Http]:
    """The box, asked over HTTP."""
    folder = Path(tempfile.mkdtemp(prefix="optimize-"))
    folder.chmod(0o755)
    box = running.ready_box(folder / "home", folder / "material")
    try:
        yield running.http_of(box, name)
    finally:
        box.down()
        shutil.rmtree(folder, ignore_errors=True)


def events_of(http: Http, run_id: str, type_: str) -> list[dict[str, Any]]:
    """The events of one type that the run's newest job has written."""
    folder = running.attempt_of(http.box, run_id)
    lines = (folder / "events.jsonl").read_bytes().splitlines() if folder else []
    return [event for event in map(json.loads, lines) if event["type"] == type_]
