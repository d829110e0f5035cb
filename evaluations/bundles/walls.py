"""Which walls this machine gives a confined process, found by putting them up once and knocking."""

import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ALL = ("namespaces", "landlock", "seccomp")
FILES, CALLS = frozenset({"namespaces", "landlock"}), "seccomp"
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache",
             "/usr/share/zoneinfo")
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


def visible_paths(folder: str) -> list[str]:
    """What can be read inside: Python's standard library, the libraries of the system, the bundle."""
    standard = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sysconfig.get_config_var("LIBDIR")]
    real = [os.path.realpath(path) for path in standard if path]
    paths = [path for path in dict.fromkeys([*LIBRARIES, *real, folder]) if Path(path).exists()]
    return [path for path in paths if not any(path.startswith(f"{other}/") for other in paths)]


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
    from evaluations.bundles.process import Confined, NotStarted

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


def executable() -> str:
    """The interpreter itself, not a link to it whose folder may not be visible."""
    return os.path.realpath(sys.executable)
