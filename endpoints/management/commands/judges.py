"""`judges`: models held on devices to grade answers, and for whom."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.ids import SHOWN
from runs.text import spell_bytes

ROUTE = "/v1/training/judges"


class Command(NounCommand):
    """Shows judges; they come and go with the work that needs them."""

    noun = "judges"
    help = "Judges: models held on devices to grade answers for a run or an evaluation."

    @verb("list", arg("--phase", default="", help="a phase, or `open` for those not given back yet"),
          arg("--for", default="", dest="held_for", metavar="ID", help="those of this run or evaluation"))
    def list_judges(self, phase: str, held_for: str) -> None:
        """Show judges, newest first."""
        self.show(self.client.get(ROUTE, phase=phase, heldFor=held_for, limit=100), text=self._table)

    @verb("get", arg("judge", metavar="JUDGE", help="ID, or the beginning of one"))
    def get(self, judge: str) -> None:
        """Show where a judge is on its way, and for whom it is held."""
        self.show(self.client.get(f"{ROUTE}/{quote(judge, safe='')}"), text=self._record)

    def _table(self, found: dict[str, Any]) -> None:
        self.table(["ID", "STATE", "MODEL", "FOR", "DEVICE", "ANSWERED", "MEMORY", "CREATED", "LAST FAULT"],
                   [[row["judgeId"][:SHOWN], row["state"], row["model"], _holder(row), row["profile"], row["answered"],
                     _memory(row), row["createdAt"][:16], row["lastFault"]] for row in found["judges"]],
                   right=["ANSWERED", "MEMORY"])

    def _record(self, found: dict[str, Any]) -> None:
        self.facts([("Judge", found["judgeId"]), ("State", found["state"]), ("Phase", found["phase"]),
                    ("Model", found["model"]),
                    ("Held for", _holder(found)), ("Device", found["profile"]), ("Answered", found["answered"]),
                    ("Memory", _memory(found)), ("Waits", found["waitReason"]), ("Last fault", found["lastFault"]),
                    ("To do", found["failureHint"])], title="Judge")


def _memory(row: dict[str, Any]) -> str | None:
    return None if row["peakMemoryBytes"] is None else spell_bytes(row["peakMemoryBytes"])


def _holder(row: dict[str, Any]) -> str:
    return f"{row['heldFor']['kind'].lower()} {row['heldFor']['workId'][:SHOWN]}"
