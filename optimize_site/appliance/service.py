"""What the supervisor must know about a service to start it, tell that it is ready, and stop it."""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from optimize_site.appliance.places import CHECKOUT


@dataclass(frozen=True)
class Service:
    """One process of the box.

    `is_ready(pid)` must answer quickly. `before_start` runs before each start. `death_signal` is what the process gets
    when the supervisor itself is killed. `forked`, where it is given, is one of the nursery's programs with its
    arguments: the service is forked from the nursery where that can be done, instead of being started by `command`.
    """

    name: str
    command: list[str]
    is_ready: Callable[[int], bool]
    env: dict[str, str] = field(default_factory=dict)
    cwd: Path = CHECKOUT
    forked: tuple[str, ...] = ()
    user: int | None = None
    group: int | None = None
    pass_fds: tuple[int, ...] = ()
    before_start: Callable[[], None] = lambda: None
    ready_seconds: float = 90
    stop_signal: int = signal.SIGTERM
    stop_seconds: float = 10
    death_signal: int = signal.SIGKILL

    @property
    def log_name(self) -> str:
        """The stem of its log file."""
        return self.name.replace("/", "-")
