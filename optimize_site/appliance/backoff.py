"""How long to wait before a service that ended is started again."""

from dataclasses import dataclass

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0
HEALTHY_SECONDS = 60.0
FAILING_AFTER = 3


@dataclass
class Backoff:
    """Counts the ends in a row of one service; a minute of health forgets them."""

    failures: int = 0

    def note_end(self, ready_for: float) -> None:
        """The service ended after having been ready for so many seconds."""
        self.failures = 1 if ready_for >= HEALTHY_SECONDS else self.failures + 1

    def delay(self) -> float:
        """Seconds to wait before the next start: 0.5, 1, 2 … 30."""
        return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** max(0, self.failures - 1))

    @property
    def is_failing(self) -> bool:
        """Whether it ended so often that somebody should look."""
        return self.failures >= FAILING_AFTER
