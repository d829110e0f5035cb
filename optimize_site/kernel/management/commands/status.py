"""`./optimize status`: what the box is doing; answers with the box down as well."""

from datetime import UTC, datetime
from typing import Any

from optimize_site.appliance.places import Places
from optimize_site.appliance.status import describe_status
from optimize_site.kernel.plain import PlainCommand


class Command(PlainCommand):
    noun = "status"
    help = "Whether the box is up, and how its services are; answers with the box down as well."
    arguments = ()

    def ask(self, **values: object) -> None:
        """Show what the supervisor noted down."""
        self.show(describe_status(Places.here()), text=self._summary)

    def _summary(self, status: dict[str, Any]) -> None:
        self.facts([("State", status["state"]), ("Address", status["url"] or None), ("State folder", status["home"]),
                    ("Since", _time(status["since"])), ("Supervisor", status["pid"])], title="Box")
        if status["state"] == "down":
            self.say("`./optimize up` starts it.")
            return
        self.table(["SERVICE", "STATE", "SINCE", "PID", "RESTARTS", "LAST ERROR"],
                   [[service["name"], service["state"], _time(service["since"]), service["pid"], service["restarts"],
                     service["lastError"]] for service in status["services"]], right=["PID", "RESTARTS"])


def _time(stamp: float | None) -> str | None:
    return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if stamp else None
