"""The verb of `runs` that mirrors a run's figures for TensorBoard, and shows them with it."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optimize_site.kernel.commands import EXIT_DONE, arg, verb
from optimize_site.kernel.errors import InvalidInput, Refused
from runs.management.following import FollowedRuns, address
from runs.phases import PHASES, title
from runs.tensorboard import Mirror

PROGRAM = "tensorboard"
REFRESH_SECONDS = 5.0
RUN = arg("run", metavar="RUN", help="ID, or the beginning of one")


class TensorboardVerbs(FollowedRuns):
    """Figures for TensorBoard."""

    @verb("tensorboard", RUN,
          arg("--dir", default="", dest="folder", metavar="DIR", help="where the event files go, in a folder a run; a "
              "new one among the system's temporary folders unless given"),
          arg("--port", type=int, default=6006, help="where TensorBoard listens on this machine"),
          arg("--sync-only", action="store_true", dest="sync_only", help="start no TensorBoard; end with the run"))
    def tensorboard(self, run: str, folder: str, port: int, sync_only: bool) -> int:
        """Mirror a run's figures into event files, newly every few seconds while it trains, and start TensorBoard."""
        program = None if sync_only else _program(port)
        found = self.client.get(address(run))
        into = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="optimize-tensorboard-"))
        mirror = Mirror(into, found)
        self._fetch(found, mirror)
        if program is None:
            found = self._until_over(found, mirror)
            self.show(_document(found, mirror, into), text=self._mirrored)
            return EXIT_DONE
        with _started([program, "--logdir", str(into), "--port", str(port)]) as process:
            self.show(_document(found, mirror, into) | {"url": f"http://localhost:{port}"}, text=self._mirrored)
            self._until_over(found, mirror, process)
            return _ended(process)

    def _until_over(self, run: dict[str, Any], mirror: Mirror, process: subprocess.Popen[bytes] | None = None) -> Any:
        """Fetch what is new every few seconds, until the run is over or TensorBoard has ended."""
        while run["phase"] not in PHASES.terminal and not _rest(process):
            run = self.read(address(run["runId"]))
            self._fetch(run, mirror)
            if run["phase"] in PHASES.terminal:
                self.say(f"The run is over ({title(run['phase'])}); all its figures are there.")
        return run

    def _fetch(self, run: dict[str, Any], mirror: Mirror) -> None:
        found = self.read(f"{address(run['runId'])}/metrics", fromStep=mirror.wanted_from(run))
        mirror.add(found["metrics"])

    def _mirrored(self, found: dict[str, Any]) -> None:
        self.facts([("Run", found["runId"]), ("Figures", f"up to step {found['step']}"), ("Event file", found["file"]),
                    ("TensorBoard", found.get("url") or f"tensorboard --logdir {found['dir']}")])


def _document(run: dict[str, Any], mirror: Mirror, folder: Path) -> dict[str, Any]:
    return {"runId": run["runId"], "phase": run["phase"], "step": mirror.step, "dir": str(folder.absolute()),
            "file": str(mirror.file.absolute())}


def _program(port: int) -> str:
    """Where TensorBoard lies. Raises InvalidInput, or Refused where there is none."""
    if not 0 < port < 65536:
        raise InvalidInput(f"--port is {port}; it must be from 1 to 65535.", code="usage")
    found = shutil.which(PROGRAM)
    if found is None:
        raise Refused("There is no `tensorboard` on PATH.", code="tensorboard_missing",
                      hint="Install it, for instance with `pip install tensorboard`; or pass --sync-only, which "
                           "needs none, and read the event files wherever there is one.")
    return found


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with what is inside; whatever it says goes to standard error, beside our own document."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _rest(process: subprocess.Popen[bytes] | None) -> bool:
    """Wait until it is time to look again. Gives whether TensorBoard ended meanwhile."""
    if process is None:
        time.sleep(REFRESH_SECONDS)
        return False
    try:
        process.wait(REFRESH_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for TensorBoard's end, which is a person's wish. Raises Refused where it did not start or failed."""
    status = process.wait()
    if status > 0:
        raise Refused(f"TensorBoard ended with status {status}; what it said stands above.", code="tensorboard_failed",
                      hint="Another --port may be free.")
    return EXIT_DONE
