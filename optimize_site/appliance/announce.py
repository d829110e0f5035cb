"""How a service tells the supervisor that it is ready: it makes the file that the supervisor named."""

import os
from pathlib import Path

READY_FILE = "OPTIMIZE_READY_FILE"
# Set for the one worker that keeps the timer.
TIMER_VARIABLE = "OPTIMIZE_TIMER"


def announce_ready() -> None:
    """Make the ready file, where the process was started by the supervisor."""
    if path := os.environ.get(READY_FILE):
        Path(path).touch()
