"""Agreement with people as the commands print it."""

from collections.abc import Sequence
from typing import Any, Protocol


class Prints(Protocol):
    """What prints tables."""

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[str] = ()) -> None:
        """Print one."""


def agreement_lines(found: dict[str, Any]) -> list[tuple[str, Any]]:
    """The agreement with its counts, kappa, and how much kinder the grader is."""
    counts = found["counts"]
    return [("Agrees", _share(found)), ("Kappa", _kappa(found)),
            ("Only people right", counts["rightToPeopleOnly"]),
            ("Only grader right", counts["rightToGraderOnly"]),
            ("Scores", _difference(found["meanDifference"])),
            ("Unscored", found["unscored"] or None),
            ("In everything", f"{_share(found['overall'])}, kappa {_kappa(found['overall']) or 'not told'}")]


def agreement_table(command: Prints, judges: list[dict[str, Any]]) -> None:
    """One line a grader."""
    command.table(["GRADER", "INSTRUCTIONS", "AGREES", "KAPPA", "UNSCORED"],
                  [[judge["grader"], (judge["graderInstructions"] or "")[:40] or None, _share(judge), _kappa(judge),
                    judge["unscored"]] for judge in judges], right=["KAPPA", "UNSCORED"])


def _share(found: dict[str, Any]) -> str:
    if not found["compared"]:
        return "nothing to compare"
    counts = found["counts"]
    return f"{counts['bothRight'] + counts['bothWrong']} of {found['compared']} ({found['agreement']:.1%})"


def _difference(mean: float | None) -> str | None:
    if mean is None:
        return None
    return f"{abs(mean):.3f} {'above' if mean >= 0 else 'below'} people's on average"


def _kappa(found: dict[str, Any]) -> str | None:
    return None if found["kappa"] is None else f"{found['kappa']:.3f}"
