"""Which walls this machine gives a confined process, found by putting them up once and knocking."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evaluations.bundles.process import Confined, NotStarted

ALL = ("namespaces", "landlock", "seccomp")
FILES, CALLS = frozenset({"namespaces", "landlock"}), "seccomp"
ADVICE = ("A bundle needs seccomp, and namespaces or Landlock: Linux 5.13 or newer has them, and a container must be "
          "let to use them. An operator who trusts every bundle may set trainer.bundles.allow-unsandboxed.")


@dataclass(frozen=True)
class Walls:
    """The walls that hold, and why each of the others does not."""

    held: Sequence[str]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_sandbox(self) -> bool:
        """Whether no bundle inside reaches a network, another process, or a file it is not shown."""
        return CALLS in self.held and not FILES.isdisjoint(self.held)


AGAIN_SECONDS = 60.0
_found: list[tuple[Walls, float]] = []


def find_walls() -> Walls:
    """The walls of this machine, tried by a process that confines itself and scores nothing. A sandbox once found is
    not looked for again; that there is none may have been the moment's fault, and is looked into a minute later."""
    if _found and (_found[0][0].is_sandbox or time.monotonic() < _found[0][1]):
        return _found[0][0]
    walls = _try_walls()
    _found[:] = [(walls, time.monotonic() + AGAIN_SECONDS)]
    return walls


def _try_walls() -> Walls:
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="walls-") as folder:
        while True:
            held = [wall for wall in ALL if wall not in missing]
            try:
                Confined(Path(folder), walls=held).close()
                return Walls(held, missing)
            except NotStarted as error:
                if error.wall not in held:
                    return Walls([], dict.fromkeys(held, error.reason) | missing)
                missing[error.wall] = error.reason
