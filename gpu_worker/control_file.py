"""The worker's word to a job: `control.json`, replaced atomically, read by the job at each boundary."""

import json
import os
from pathlib import Path

from optimize_site.kernel import clock
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.work import Ask


def write_control(folder: Path, attempt: Attempt, ask: Ask = "") -> None:
    """Say who drives the job, that it is watched, and what is asked of it."""
    body = {"attempt": attempt.pk, "token": attempt.lease.token, "seen_at": clock.now().timestamp(), "ask": ask}
    scratch = folder / f".control.{os.getpid()}"
    scratch.write_text(json.dumps(body))
    scratch.replace(folder / "control.json")
