"""`./optimize capacity`: pools, devices, and who holds or waits for them."""

from typing import Any

from optimize_site.kernel.commands import arg
from optimize_site.kernel.plain import PlainCommand


class Command(PlainCommand):
    noun = "capacity"
    help = "Pools of devices, and every claim that holds or waits for one."
    arguments = (arg("--workload", "--project", default="", help="only this workload's claims"),)

    def ask(self, workload: str = "") -> None:  # type: ignore[override]
        """Show pools, claims and warnings."""
        self.show(self.client.get("/v1/training/capacity", workload=workload), text=self._tables)

    def _tables(self, document: dict[str, Any]) -> None:
        print("Pools:")
        self.table(["POOL", "ACCELERATOR", "FREE", "GRANTED", "OUTSIDE", "DECLARED", "OBSERVED", "QUEUED", "MAX CLAIM",
                    "HOST RAM"],
                   [[pool["pool"], pool["accelerator"], pool["free"], pool["granted"], pool["outside"],
                     pool["declared"], pool["observed"], pool["queued"], pool["maxClaim"],
                     f"{pool['hostMemoryBytes'] / 1024**3:.0f} GiB"] for pool in document["pools"]],
                   right=["FREE", "GRANTED", "OUTSIDE", "DECLARED", "OBSERVED", "QUEUED", "MAX CLAIM", "HOST RAM"])
        print("\nClaims:")
        self.table(["KIND", "FOR", "WORKLOAD", "DEVICES", "POOL", "STATE", "SINCE"],
                   [[claim["kind"], _for(claim), claim["workload"], claim["devices"], claim["pool"],
                     claim["state"], claim["since"]] for claim in document["claims"]], right=["DEVICES"])
        for warning in document["warnings"]:
            print(f"Warning: {warning}")


def _for(claim: dict[str, Any]) -> str:
    """The work that claims; of a judge the work that it is held for too."""
    held = claim.get("heldFor")
    return f"{claim['workId'][:12]} for {held['kind'].lower()} {held['workId'][:12]}" if held else claim["workId"][:12]
