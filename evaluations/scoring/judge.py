"""A model as a term: asks the judge that the box holds for this work, over its Unix socket.

The lines that pass are those of the job's entry `judge`: a request with all questions, an answer for each as soon as
there is one.
"""

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluations.graders import Verdict
from evaluations.graders.verdict import unscored
from evaluations.scoring.judge_words import judge_messages, read_judgement
from evaluations.scoring.spec import Limits
from evaluations.scoring.terms import Item, NotReady

PATIENCE_SECONDS = 600.0
"""How long a judge that is lost is waited for in one request, however often it goes: the box starts it again, and a
large model takes minutes to load. All terms are asked at once, so that their waits do not add up."""
START_SECONDS = 240.0
"""How long all judges together are waited for at the start, within what whoever starts this process waits for it to be
ready."""
MOST_LOSSES = 5
"""Of a judge over one request: one that goes on being lost over it is not asked for ever."""
SAY_SECONDS = 30.0
"""How long a judge may take to read what it is asked."""
LOOK_SECONDS = 0.1
TIMEOUT, CONNECTION, ERROR = "timeout", "connection", "error"
SAID = {TIMEOUT: "The judge gave no answer within {seconds:g} seconds.", CONNECTION: "The judge does not answer."}


class JudgeScorer:
    """Asks one judge. `tokens` counts what it read and wrote since this was made."""

    def __init__(self, path: Path, instructions: str, *, seconds: float, patience: float = PATIENCE_SECONDS,
                 start: float = START_SECONDS):
        """`seconds` is the longest that nothing may come back. Raises OSError where the judge cannot be reached."""
        self.tokens = 0
        self._path, self._instructions, self._seconds = path, instructions, seconds
        self._whole_patience = self._patience = self._left = patience
        self._number = 0
        self._line: _Line | None = _connect(path, start)

    def score(self, items: Sequence[Item]) -> Sequence[Verdict]:
        """The judge's verdict on each item. What was answered before a judge was lost stays, and the rest is asked
        again as often as it comes back in time. One that was just killed can take a new line and lose that too."""
        left = {index: {"messages": judge_messages(self._instructions, item.prompt, item.completion, item.calls)}
                for index, item in enumerate(items)}
        found: dict[int, Verdict] = {}
        self._left = self._patience
        cause, losses = self._ask(left, found) if left else "", 1
        while cause == CONNECTION and self._patience and losses < MOST_LOSSES:
            losses += 1
            cause = self._ask({index: question for index, question in left.items() if index not in found}, found)
        missing = unscored(cause or ERROR, SAID.get(cause, "The judge left this out.").format(seconds=self._seconds))
        return [found.get(index, missing) for index in range(len(items))]

    def _ask(self, questions: Mapping[int, Mapping[str, Any]], found: dict[int, Verdict]) -> str:
        """Ask, and put what comes back into `found`; the cause why something is missing, empty where nothing is."""
        places = list(questions)
        try:
            line = self._line = self._line or self._reconnect()
            self._number += 1
            line.say({"id": self._number, "items": list(questions.values())})
            for reply in line.replies(self._seconds):
                if reply.get("done"):
                    return ""
                found[places[reply["index"]]] = self._verdict(reply)
        except TimeoutError:
            self._hang_up()
            return TIMEOUT
        except (OSError, EOFError):
            # A judge that stayed away is tried once a request from now on, without waiting for it again.
            self._patience = 0.0 if self._line is None else self._patience
            self._hang_up()
            return CONNECTION
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            self._hang_up()
        return ERROR

    def _reconnect(self) -> "_Line":
        """A new line, waited for with what is left of this request's patience. Raises OSError."""
        begun = time.monotonic()
        try:
            line = _connect(self._path, self._left)
        finally:
            self._left -= time.monotonic() - begun
        self._patience = self._whole_patience
        return line

    def _verdict(self, reply: Mapping[str, Any]) -> Verdict:
        if "cause" in reply:
            return unscored(str(reply["cause"]), str(reply["detail"]))
        self.tokens += int(reply["promptTokens"]) + int(reply["completionTokens"])
        return read_judgement(reply["answer"], is_cut=reply["finish"] == "length")

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def close(self) -> None:
        self._hang_up()


class _Line:
    """A connection on which whole lines pass."""

    def __init__(self, connection: socket.socket):
        self._connection, self._read = connection, bytearray()

    def say(self, body: Mapping[str, Any]) -> None:
        self._connection.settimeout(SAY_SECONDS)
        try:
            self._connection.sendall(json.dumps(body).encode() + b"\n")
        except TimeoutError as error:
            raise ConnectionError("the judge does not take what it is asked") from error

    def replies(self, seconds: float) -> Iterator[dict[str, Any]]:
        """What comes back. Raises TimeoutError where nothing does for so long, EOFError where the judge is gone."""
        while True:
            deadline = time.monotonic() + seconds
            while b"\n" not in self._read:
                self._connection.settimeout(max(0.001, deadline - time.monotonic()))
                chunk = self._connection.recv(1 << 20)
                if not chunk:
                    raise EOFError
                self._read += chunk
            line, _, rest = self._read.partition(b"\n")
            self._read = bytearray(rest)
            yield json.loads(line)

    def close(self) -> None:
        self._connection.close()


def _connect(path: Path, patience: float) -> _Line:
    """A line to the judge, tried for so long. Raises OSError."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return _Line(_open(path))
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(LOOK_SECONDS)


def _open(path: Path) -> socket.socket:
    """Connected through the folder that holds the socket: a socket's own path has a short limit."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    except OSError:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection


def make_judge(body: Any, limits: Limits, scratch: Path | None, *, start_by: float | None = None) -> JudgeScorer:
    """The scorer of a judge: `{socket, instructions, source}`, and the `seconds` it may be silent where they are not
    those of every term. It is waited for until `start_by` on the monotonic clock. Raises NotReady."""
    stated = body if isinstance(body, Mapping) else {}
    path, instructions = Path(str(stated.get("socket") or "")), stated.get("instructions")
    if not path.is_absolute() or not isinstance(instructions, str) or not instructions:
        raise NotReady("bad_spec", "A judge needs the whole path of its socket, and instructions.")
    seconds = float(stated.get("seconds") or limits.seconds)
    start = START_SECONDS if start_by is None else start_by - time.monotonic()
    try:
        return JudgeScorer(path, instructions, seconds=seconds, start=start)
    except OSError as error:
        raise NotReady("judge_not_answering", f"The judge at {path} does not answer: {error.strerror or error}.",
                       "It is started again by itself; try once more in a moment.") from error
