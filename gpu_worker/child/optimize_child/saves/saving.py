"""Saving while training goes on: one thread writes what was captured at a boundary, in the order it was captured."""

from __future__ import annotations

import threading
from collections.abc import Callable

from optimize_child.saves.save_queue import Save, SaveQueue

MOST_WAITING = 8


class Saver:
    """Writes saves behind the training's back. What goes wrong there is raised at the next boundary.

    `write` makes a snapshot of one save, `discard` lets one go, `report` is told how many wait and were skipped.
    """

    def __init__(
        self,
        queue: SaveQueue,
        *,
        write: Callable[[Save], None],
        discard: Callable[[Save], None],
        report: Callable[[int, int], None],
    ) -> None:
        self._queue = queue
        self._write = write
        self._discard = discard
        self._report = report
        self._changed = threading.Condition()
        self._ending = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def submit(self, save: Save) -> None:
        """Hand over a captured save. Waits only where the disk is so slow that the captured saves would pile up."""
        with self._changed:
            self._raise_error()
            self._changed.wait_for(lambda: self._error is not None or len(self._queue.waiting) < MOST_WAITING)
            self._raise_error()
            self._let_go(self._queue.put(save))
            self._start()
            self._changed.notify_all()
        self._tell()

    def finish(self, *, keep_epochs: bool) -> None:
        """Wait until the newest save is written; what waits before it is skipped, but for epochs' ends if asked."""
        with self._changed:
            self._let_go(self._queue.rest(keep_epochs=keep_epochs))
            self._ending = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._raise_error()
        self._tell()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="saver", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while (save := self._next()) is not None:
            try:
                self._write(save)
            except BaseException as error:
                self._fail(error)
                return
            with self._changed:
                self._queue.wrote(save)
                self._changed.notify_all()
            self._tell()

    def _next(self) -> Save | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue.waiting or self._ending)
            return self._queue.take()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _let_go(self, saves: list[Save]) -> None:
        for save in saves:
            self._discard(save)

    def _tell(self) -> None:
        self._report(len(self._queue.waiting), self._queue.skipped)
