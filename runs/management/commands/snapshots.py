"""`snapshots`: look at a run's saves, keep them, make models of them."""

from typing import Any

from optimize_site.kernel.commands import NounCommand, arg, verb
from runs import table_text
from runs.render import candidate_document, snapshot_record

ROUTE = "/v1/training/snapshots"
SNAPSHOT = arg("snapshot", metavar="SNAPSHOT", help="ID, or the beginning of one")
KIND = arg("--kind", choices=["weights", "trainingState"], default="", help="one kind; both unless given")


class Command(NounCommand):
    """Shows, keeps and registers snapshots."""

    noun = "snapshots"
    help = "Snapshots: verified saves of a run, to go on from, to branch from, to make models of."

    @verb("get", SNAPSHOT)
    def get(self, snapshot: str) -> None:
        """Show where a snapshot comes from, what it holds and who holds it."""
        self._show(self.client.get(address(snapshot)))

    @verb("pin", SNAPSHOT, KIND, gives=(snapshot_record,))
    def pin(self, snapshot: str, kind: str) -> None:
        """Keep a snapshot whatever retention says."""
        self._show(self.client.post(f"{address(snapshot)}/pin", {"kind": kind}))

    @verb("unpin", SNAPSHOT, KIND, gives=(snapshot_record,))
    def unpin(self, snapshot: str, kind: str) -> None:
        """Leave a snapshot to retention again."""
        self._show(self.client.post(f"{address(snapshot)}/unpin", {"kind": kind}))

    @verb("release", SNAPSHOT, arg("owner", metavar="OWNER", help="the run or model that holds it"), KIND,
          gives=(snapshot_record,))
    def release(self, snapshot: str, owner: str, kind: str) -> None:
        """Clear a hold that was left behind."""
        self._show(self.client.post(f"{address(snapshot)}/release", {"owner": owner, "kind": kind}))

    @verb("register", SNAPSHOT, gives=(candidate_document,))
    def register(self, snapshot: str) -> None:
        """Ask for a model of the snapshot's weights; `candidate` tells how it stands."""
        asked = self.client.post(f"{address(snapshot)}/register")
        self.show_made(asked, "modelId", text=self._candidate)

    @verb("candidate", SNAPSHOT)
    def candidate(self, snapshot: str) -> None:
        """Show how the registration of a snapshot stands."""
        self.show(self.client.get(f"{address(snapshot)}/candidate"), text=self._candidate)

    def _show(self, found: Any) -> None:
        self.show(found, text=lambda record: self.facts(table_text.snapshot_record_rows(record)))

    def _candidate(self, record: Any) -> None:
        self.facts(table_text.candidate_rows(record))


def address(snapshot: str) -> str:
    """The route of one snapshot."""
    return f"{ROUTE}/{snapshot}"
