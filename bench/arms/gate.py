"""The arm's end of the line to the bar: wait for the word, take the step, report it."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from transformers import TrainerCallback

# Whatever a library prints must not stand between the replies.
_replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def reply(**values: Any) -> None:
    print(json.dumps(values), file=_replies, flush=True)


def await_word() -> None:
    if not sys.stdin.readline():
        os._exit(0)


class Gate(TrainerCallback):
    """Holds a trainer before each update; an update lasts until it stands before the next one."""

    def __init__(self) -> None:
        self.clocks: tuple[float, float] | None = None
        self.loss: float | None = None
        self.share: tuple[float, float] = (0.0, 0.0)
        """Wall and processor seconds of work done ahead that belong to each update."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._report()
        await_word()
        self.clocks = time.perf_counter(), time.process_time()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._report()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        self.note(logs or {})

    def note(self, logs: dict[str, Any]) -> None:
        """Keep the loss of the update that was just logged."""
        self.loss = logs.get("loss", self.loss)

    def _report(self) -> None:
        if self.clocks is None:
            reply(ready=True)
            return
        wall, processor = self.clocks
        ahead, ahead_cpu = self.share
        spent = time.perf_counter() - wall + ahead, time.process_time() - processor + ahead_cpu
        reply(seconds=spent[0], cpu=spent[1], loss=self.loss)
