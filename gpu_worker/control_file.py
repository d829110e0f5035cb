"""The worker's word to a job: `control.json`, replaced atomically, read by the job at each boundary."""

import json
import os
import time
from pathlib import Path

from optimize_site.kernel.models import Attempt


def write_control(folder: Path, attempt: Attempt, *, stop: bool) -> None:
    """Say who drives the job, that it is watched, and whether it should save and end."""
    body = {"attempt": attempt.pk, "token": attempt.lease.token, "seen_at": time.time(), "pause": False, "stop": stop}
    scratch = folder / f".control.{os.getpid()}"
    scratch.write_text(json.dumps(body))
    scratch.replace(folder / "control.json")
