"""What verifying a run found, as lines for people. Pure: documents in, rows and sentences out."""

from collections.abc import Iterable, Mapping
from typing import Any

CHECK_COLUMNS = ("CHECK", "LOOKED AT", "RESULT")


def check_rows(checks: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """What verifying a run looked at, as table rows."""
    return [[check["name"], f"{check['count']:,} {check['unit']}", _verdict(len(check["problems"]))]
            for check in checks]


def _verdict(problems: int) -> str:
    return f"{problems} disagreement{'' if problems == 1 else 's'}" if problems else "OK"


def verdict(found: Mapping[str, Any]) -> str:
    """Whether a run that was verified is what it says, in a sentence."""
    return "OK: everything agrees." if found["verified"] else "Not OK: something is not what was recorded."


def disagreements(found: Mapping[str, Any]) -> list[str]:
    """Exactly what disagrees in a run that was verified, one sentence each."""
    return [f"{check['name']}: {problem}" for check in found["checks"] for problem in check["problems"]]
