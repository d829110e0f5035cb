"""A bundle's function as a scorer: it lives in a confined process, and an item that ends it costs its own score."""

import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeGuard

from evaluations.bundles.process import Confined, Ended, NotStarted
from evaluations.bundles.unpacked import BadArchive, unpack
from evaluations.bundles.walls import ADVICE, Walls, find_walls
from evaluations.graders import Verdict
from evaluations.graders.verdict import unscored
from evaluations.scoring.spec import Limits
from evaluations.scoring.terms import Item, NotReady

ITEMS_A_REQUEST, ITEMS_A_FRAME = 512, 128
CAUSES = frozenset({"error", "invalid_result"})
ONE: dict[str, Callable[[Item], Any]] = {
    "data_source": lambda item: str(item.columns.get("data_source", "")), "solution_str": attrgetter("completion"),
    "ground_truth": attrgetter("expected"),
    "extra_info": lambda item: {**item.columns, "index": item.row, "prompt": item.prompt, "tools": item.tools,
                                "calls": item.calls}}
GIVEN = ONE | {f"{name}s": value for name, value in ONE.items()}
"""What each argument is, of a function that takes one answer and of one that takes many."""


class BundleScorer:
    """Scores with one function of one bundle. Raises NotReady where it cannot be scored with."""

    def __init__(self, archive: Path, module: str, function: str, limits: Limits, scratch: Path | None, *, sha256: str):
        self._walls = allowed_walls(limits)
        self._module, self._function, self._limits = module, function, limits
        # An honest function of one thread never meets this: the process is changed for a new one at half of it.
        self._cpu_seconds = 2 * limits.seconds * ITEMS_A_REQUEST + 60
        self._process: Confined | None = None
        try:
            self._folder = unpack(archive, sha256, scratch)
        except (BadArchive, OSError) as error:
            raise NotReady("bundle_unreadable", str(error)) from error
        try:
            ready = self._running().ready
        except BaseException:
            self.close()
            raise
        # Whatever was said came out of a process in which the bundle had been imported.
        self.takes = [name for name in ready.get("takes") or () if name in tuple(GIVEN)]
        self.is_batch, self.is_async = bool(ready.get("isBatch")), bool(ready.get("isAsync"))

    @property
    def walls(self) -> Walls:
        """What stands around it."""
        return self._walls

    def score(self, items: Sequence[Item]) -> Sequence[Verdict]:
        """One verdict an item, in their order."""
        verdicts, alone = list[Verdict](), 0
        while len(verdicts) < len(items):
            first = len(verdicts)
            rest = items[first:first + (alone or ITEMS_A_REQUEST)]
            answered, ended = self._running().ask(rest, 1 if alone else ITEMS_A_FRAME, self._written, verdict_of)
            verdicts += answered
            alone = max(0, alone - len(answered))
            if ended is None:
                self._renew()
                continue
            self._process = None
            if not alone and (self.is_batch or ended.cause == "invalid_result"):
                alone = len(rest) - len(answered)  # which item it was shows once each is asked by itself
                continue
            # Items that were done when it ended, but whose scores were still inside, are scored again first.
            verdicts += self.score(items[len(verdicts):len(verdicts) + ended.lost])
            verdicts.append(_verdict_of_end(ended))
            alone = max(0, alone - ended.lost - 1)
        return verdicts

    def _written(self, items: Sequence[Item]) -> list[tuple[Any, ...]]:
        """What the function takes of each item, in its order; nothing else leaves."""
        return [tuple([GIVEN[name](item) for name in self.takes]) for item in items]

    def _running(self) -> Confined:
        if self._process is None:
            try:
                self._process = Confined(
                    self._folder / "top", walls=self._walls.held, files=self._folder / "files", module=self._module,
                    function=self._function, seconds=self._limits.seconds, memory_bytes=self._limits.memory_bytes,
                    cpu_seconds=self._cpu_seconds)
            except NotStarted as error:
                raise NotReady(error.code, error.reason, error.hint) from error
        return self._process

    def _renew(self) -> None:
        """Take a new process where this one has used half of the processor time that any may use."""
        if self._process is not None and self._process.used_seconds() > self._process.cpu_seconds / 2:
            self._process.close()
            self._process = None

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
        with suppress(OSError):
            shutil.rmtree(self._folder)


def allowed_walls(limits: Limits) -> Walls:
    """The walls that this machine gives. Raises NotReady where they are no sandbox, unless the operator allows that."""
    found = find_walls()
    if not found.is_sandbox and not limits.unsandboxed_bundles:
        raise NotReady("no_sandbox", f"This machine gives bundles no sandbox: {why_not(found)}.", ADVICE)
    return found


def why_not(walls: Walls) -> str:
    """What is missing, and why, in a clause."""
    return "; ".join(f"{wall}: {reason}" for wall, reason in walls.missing.items())


def verdict_of(entry: Any) -> Verdict:
    """What an entry from inside says, believed only where it is what was agreed."""
    if _is_score(entry):
        return Verdict(float(entry), entry == 1)
    if type(entry) is list and len(entry) == 3:
        score, explanation, parts = entry
        if _is_score(score) and type(explanation) is str and type(parts) is dict and \
                set(map(type, parts.values())) <= {bool}:
            return Verdict(float(score), score == 1, parts, explanation)
    if type(entry) is dict and entry.get("c") in tuple(CAUSES):
        return unscored(str(entry["c"]), str(entry.get("x", "")))
    return unscored("invalid_result", "The bundle answered with something that is no score.")


def _is_score(value: Any) -> TypeGuard[float]:
    return type(value) in (float, int) and 0 <= value <= 1


def _verdict_of_end(ended: Ended) -> Verdict:
    return unscored(ended.cause, ended.reason)


def make_bundle(body: Any, limits: Limits, scratch: Path | None) -> BundleScorer:
    """The scorer of a term's `{archive, sha256, module, function}`. Raises NotReady."""
    try:
        archive, sha256 = Path(body["archive"]), str(body["sha256"])
        module, function = str(body["module"]), str(body["function"])
    except (TypeError, KeyError) as error:
        raise NotReady("bad_spec", f"A bundle's term lacks {error}.") from error
    scorer = BundleScorer(archive, module, function, limits, scratch, sha256=sha256)
    print(f"bundle {sha256[:12]}: {said_of(scorer.walls)}", file=sys.stderr)
    return scorer


def said_of(walls: Walls) -> str:
    """How a bundle runs, for the log."""
    if walls.is_sandbox:
        return f"in a sandbox of {', '.join(walls.held)}"
    return f"WITHOUT A SANDBOX, as the operator allows: {why_not(walls)}"
