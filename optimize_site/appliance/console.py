"""What `up` tells the person who ran it: on the terminal, or through a pipe from the detached supervisor."""

import os
import time
from pathlib import Path

from optimize_site.appliance.logs import open_log

READY = "\0ready"


class Console:
    """Lines for a person, kept in the supervisor's log as well."""

    def __init__(self, descriptor: int, log: Path) -> None:
        self._descriptor = descriptor
        self._log = open_log(log)

    def say(self, text: str, *, keep: bool = True) -> None:
        """Print the text. A secret is told with `keep` off, and then stays out of the log."""
        for line in text.splitlines():
            self._print(line)
            if keep:
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                os.write(self._log, f"{stamp} {line}\n".encode())

    def _print(self, line: str) -> None:
        try:
            os.write(self._descriptor, f"{line}\n".encode())
        except OSError:  # the terminal or the waiting `up --detach` is gone; the log is enough
            self._descriptor = os.open(os.devnull, os.O_WRONLY)


class PipeConsole(Console):
    """The console of a detached supervisor: `up --detach` reads it until it hears that the box is ready."""

    def let_go(self) -> None:
        """Tell the waiting `up --detach` that the box is ready, and close the pipe."""
        self._print(READY)
        os.close(self._descriptor)
        self._descriptor = os.open(os.devnull, os.O_WRONLY)
