"""A confined process as seen from outside: started behind the walls, fed, watched, stopped while it has nothing to do.

Nothing that comes from it is believed: frames have an end, JSON is all that is read, and there are never more entries
than items.
"""

import json
import marshal
import mmap
import os
import selectors
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluations.bundles.visible import executable, visible_paths
from evaluations.graders import Verdict
from evaluations.scoring.terms import Item

INSIDE = Path(__file__).resolve().parent / "inside"
LENGTH, BEGUN = struct.Struct("<I"), struct.Struct("<Q")
MAX_FRAME, MAX_REASON = 4 << 20, 3000
FRAMES_AHEAD = 3
REFUSALS = frozenset({"bundle_does_not_import", "bundle_without_function", "bundle_function_asks_more"})
START_SECONDS = 30.0
STOPPED_SECONDS = 1.0
Written = Callable[[Sequence[Item]], list[tuple[Any, ...]]]
Read = Callable[[Any], Verdict]
ENVIRONMENT = {"LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
"""All that is in it. Hashes do not vary, so that a set is walked in the same order every time."""


class NotStarted(Exception):
    """It did not get as far as scoring: a code, a sentence, what to do, and the wall that did not hold, if one."""

    def __init__(self, code: str, reason: str, hint: str = "", wall: str = ""):
        super().__init__(reason)
        self.code, self.reason, self.hint, self.wall = code, reason, hint, wall


@dataclass(frozen=True)
class Ended:
    """How a process ended that should have gone on; `lost` of the unanswered items were behind it already."""

    cause: str
    reason: str
    lost: int = 0


class Confined:
    """One process. Raises NotStarted."""

    def __init__(self, root: Path, *, walls: Sequence[str], files: Path | None = None, module: str = "",
                 function: str = "", seconds: float = START_SECONDS, memory_bytes: int = 1 << 30,
                 cpu_seconds: float = 3600):
        self._seconds, self._answered, self._pending = seconds, 0, bytearray()
        self.cpu_seconds = int(cpu_seconds)
        folder = str(files or root)
        configuration = {
            "walls": list(walls), "visible": visible_paths(folder), "root": str(root), "folder": folder,
            "module": module, "function": function, "memoryBytes": memory_bytes, "cpuSeconds": self.cpu_seconds}
        self._mine, theirs = socket.socketpair()
        shared = os.memfd_create("begun")
        try:
            os.ftruncate(shared, BEGUN.size)
            self._begun = mmap.mmap(shared, BEGUN.size)
            self._process = _start(configuration, theirs.fileno(), shared)
        except OSError as error:
            self._mine.close()
            raise NotStarted("sandbox_failed", f"The process of the bundle does not start: {error}.") from error
        finally:
            theirs.close()
            os.close(shared)
        self._mine.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._mine, selectors.EVENT_READ)
        self.ready = self._await_ready()
        self._stop()

    def _await_ready(self) -> dict[str, Any]:
        try:
            said = self._first()
        except _Lie as lie:
            self.close()
            raise NotStarted("bundle_broke", str(lie)) from lie
        except BaseException:
            self.close()
            raise
        if said.get("ready") is True and isinstance(said.get("takes", []), list):
            return said
        self.close()
        if "wall" in said:
            raise NotStarted("sandbox_failed", f"The {said['wall']} wall of the sandbox cannot be put up: "
                             f"{said['reason']}.", wall=str(said["wall"]))
        code, reason, hint = (_plain(said.get(name, "")) for name in ("code", "reason", "hint"))
        raise NotStarted(code if code in REFUSALS else "bundle_broke", reason, hint)

    def _first(self) -> dict[str, Any]:
        limit = time.monotonic() + max(self._seconds, START_SECONDS)
        while time.monotonic() < limit:
            for frame in self._frames(self._receive(limit - time.monotonic())):
                if isinstance(frame, dict):
                    return frame
                raise _Lie("The bundle spoke out of turn while it was imported.")
            if self._mine.fileno() < 0:
                raise NotStarted("bundle_broke", f"The bundle {self._how_it_ended()} while it was imported.")
        raise NotStarted("bundle_too_slow", f"Importing the bundle took more than {max(self._seconds, START_SECONDS):g}"
                         " seconds.", "Let the module do its work when its function is called.")

    def ask(self, items: Sequence[Item], size: int, written: Written, read: Read) -> tuple[list[Verdict], Ended | None]:
        """What `read` makes of the entries of the first items, `size` sent at a time as `written` says, and how it
        ended where they are not of all. Both work on some items while the function works on others."""
        self._go_on()
        asked = _Asked(items, size, self._answered, written, read)
        mark, since = self._count(), time.monotonic()
        while asked.is_open:
            try:
                got_on = asked.take(self._frames(self._exchange(asked.fill(), self._seconds / 4)))
            except _Lie as lie:
                return asked.verdicts, self._end("invalid_result", str(lie), 0)
            if got_on or self._count() != mark:
                mark, since = self._count(), time.monotonic()
            if asked.is_open and self._mine.fileno() < 0:
                return asked.verdicts, self._end("crash", f"The bundle {self._how_it_ended()}.", asked.lost(mark))
            if time.monotonic() - since > self._seconds:
                return asked.verdicts, self._end("timeout", f"The function took more than {self._seconds:g} seconds.",
                                                 asked.lost(mark))
        self._answered += len(asked.verdicts)
        self._stop()
        return asked.verdicts, None

    def _end(self, cause: str, reason: str, lost: int) -> Ended:
        self.close()
        return Ended(cause, reason, lost)

    def _count(self) -> int:
        return int(BEGUN.unpack_from(self._begun)[0])

    def _exchange(self, queue: bytearray, patience: float) -> bytes:
        """Send what can be sent and receive what is there, waiting for either."""
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if queue else 0)
        self._selector.modify(self._mine, wanted)
        events = self._selector.select(patience)
        with suppress(BlockingIOError, ConnectionError):
            if queue and any(mask & selectors.EVENT_WRITE for _, mask in events):
                del queue[:self._mine.send(memoryview(queue)[:1 << 18].toreadonly())]
        return self._receive(0)

    def _receive(self, patience: float) -> bytes:
        """What has come; closes this side once the other is gone."""
        if patience > 0:
            self._selector.modify(self._mine, selectors.EVENT_READ)
            self._selector.select(patience)
        try:
            piece = self._mine.recv(1 << 18)
        except BlockingIOError:
            return b""
        except ConnectionError:
            piece = b""
        if not piece:
            self._selector.unregister(self._mine)
            self._mine.close()
        return piece

    def _frames(self, received: bytes) -> Iterator[Any]:
        """The whole frames among what has come. Raises _Lie."""
        self._pending += received
        while len(self._pending) >= LENGTH.size:
            size = LENGTH.unpack_from(self._pending)[0]
            if size > MAX_FRAME:
                raise _Lie(f"The bundle answered with {size:,} bytes at once.")
            if len(self._pending) < LENGTH.size + size:
                return
            body = bytes(memoryview(self._pending)[LENGTH.size:LENGTH.size + size])
            del self._pending[:LENGTH.size + size]
            try:
                yield json.loads(body)
            except (ValueError, RecursionError) as error:
                raise _Lie("The bundle answered with something that is no JSON.") from error

    def _how_it_ended(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            status = self._process.wait(STOPPED_SECONDS)
            return f"was ended by the signal {-status}" if status < 0 else f"ended its process with the status {status}"
        return "closed its channel"

    def _stop(self) -> None:
        """It stands still until it is asked: whatever threads it has take no time."""
        self._signal(signal.SIGSTOP)

    def _go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def used_seconds(self) -> float:
        """The processor time that it has taken."""
        try:
            words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End it, whatever it is doing."""
        if self._mine.fileno() >= 0:
            self._selector.unregister(self._mine)
            self._mine.close()
        self._selector.close()
        self._signal(signal.SIGKILL)
        self._process.wait()


def _start(configuration: Mapping[str, Any], channel: int, begun: int) -> "subprocess.Popen[bytes]":
    written = json.dumps({**configuration, "parent": os.getpid(), "channel": channel, "begun": begun})
    return subprocess.Popen(
        [executable(), "-I", "-S", "-B", str(INSIDE), written], env=ENVIRONMENT, cwd="/", stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=True, pass_fds=(channel, begun),
        start_new_session=True)


def _plain(value: Any) -> str:
    """A text that a database and a page take, with an end."""
    return str(value)[:MAX_REASON].encode("utf-8", "replace").decode().replace("\0", "\ufffd")


class _Asked:
    """Items on their way to a process, and what the entries that came back say; `before` were answered earlier."""

    def __init__(self, items: Sequence[Item], size: int, before: int, written: Written, read: Read):
        self.verdicts: list[Verdict] = []
        self._items, self._size, self._before = items, size, before
        self._written, self._read = written, read
        self._sent, self._queue = 0, bytearray()
        self._ahead = size * FRAMES_AHEAD if size > 1 else 1

    @property
    def is_open(self) -> bool:
        return len(self.verdicts) < len(self._items)

    def fill(self) -> bytearray:
        """What is to be sent now. Frames go ahead of their entries, so that neither side waits for the other."""
        while not self._queue and self._sent < min(len(self._items), len(self.verdicts) + self._ahead):
            body = marshal.dumps(self._written(self._items[self._sent:self._sent + self._size]))
            self._queue += LENGTH.pack(len(body)) + body
            self._sent = min(self._sent + self._size, len(self._items))
        return self._queue

    def take(self, frames: Iterable[Any]) -> bool:
        """Take in entries, which must go on where the last ones ended; whether there were any. Raises _Lie."""
        had = len(self.verdicts)
        for frame in frames:
            most = self._sent - len(self.verdicts)
            if type(frame) is not list or not 1 < len(frame) <= most + 1 or \
                    frame[0] != self._before + len(self.verdicts):
                raise _Lie("The bundle answered what was not asked.")
            self.verdicts += map(self._read, frame[1:])
        return len(self.verdicts) > had

    def lost(self, begun: int) -> int:
        """How many of the items that are sent and not answered lie behind it already, if it ended now."""
        return max(0, min(begun - self._before, self._sent) - len(self.verdicts) - 1)


class _Lie(Exception):
    """What came from inside is not what was agreed."""
