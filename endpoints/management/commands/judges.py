"""`judges`: models held on devices to grade answers, and for whom."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.ids import SHOWN

ROUTE = "/v1/training/judges"


class Command(NounCommand):
    """Shows judges; they come and go with the work that needs them."""

    noun = "judges"
    help = "Judges: models held on devices to grade answers for a run or an evaluation."

    @verb("list", arg("--phase", default="", help="a phase, or `open` for those not given back yet"))
    def list_judges(self, phase: str) -> None:
        """Show judges, newest first."""
        self.show(self.client.get(ROUTE, phase=phase, limit=100), text=self._table)

    @verb("get", arg("judge", metavar="JUDGE", help="ID, or the beginning of one"))
    def get(self, judge: str) -> None:
        """Show where a judge is on its way, and for whom it is held."""
        self.show(self.client.get(f"{ROUTE}/{quote(judge, safe='')}"), text=self._record)

    def _table(self, found: dict[str, Any]) -> None:
        self.table(["ID", "PHASE", "MODEL", "FOR", "DEVICE", "ANSWERED", "CREATED"],
                   [[row["judgeId"][:SHOWN], row["phase"], row["model"], _holder(row), row["profile"],
                     row["answered"], row["createdAt"][:16]] for row in found["judges"]], right=["ANSWERED"])

    def _record(self, found: dict[str, Any]) -> None:
        self.facts([("Judge", found["judgeId"]), ("Phase", found["phase"]), ("Model", found["model"]),
                    ("Held for", _holder(found)), ("Device", found["profile"]), ("Answered", found["answered"]),
                    ("Waits", found["waitReason"]), ("Failed", found["failureReason"]),
                    ("To do", found["failureHint"])], title="Judge")


def _holder(row: dict[str, Any]) -> str:
    return f"{row['heldFor']['kind'].lower()} {row['heldFor']['workId'][:SHOWN]}"
