"""`base-models`: what may be trained here, and choosing from it."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.commands import (
    EXIT_DONE,
    EXIT_REFUSED,
    EXIT_TIMED_OUT,
    EXIT_WORK_FAILED,
    NounCommand,
    arg,
    duration,
    verb,
)
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.ids import SHOWN
from registry.base_model_render import base_model_document

ROUTE = "/v1/training/base-models"
SELECT_SECONDS = 30 * 60.0
BASE_MODEL = arg("base_model", metavar="BASE_MODEL", help="repository, entry ID, model ID, or the beginning of an ID")


class Command(NounCommand):
    """Lists, selects and deselects base models."""

    noun = "base_models"
    help = "The base models this box allows, and which of them are selected."

    @verb("list", arg("--all", action="store_true", dest="every", help="every one that is allowed"))
    def list_base_models(self, every: bool) -> None:
        """Show the selected base models."""
        self.show(self.client.get(ROUTE, all=every, limit=100), text=self._table)

    @verb("get", BASE_MODEL)
    def get(self, base_model: str) -> None:
        """Show one base model: admission, selection, the runs this box admits."""
        self.show(self.client.get(address(base_model)), text=self._record)

    @verb("select", BASE_MODEL, arg("--wait", action="store_true", help="until it is ready"),
          arg("--timeout", type=duration, default=None, help="with --wait; 30m unless given, 0 for no end"),
          gives=(base_model_document,))
    def select(self, base_model: str, wait: bool, timeout: float | None) -> int:
        """Have a base model prepared."""
        if timeout is not None and not wait:
            raise InvalidInput("--timeout requires --wait.", code="usage")
        found = self.client.post(f"{address(base_model)}/select")
        if wait and found["selection"] != "READY":
            return self._wait(found["id"], SELECT_SECONDS if timeout is None else timeout)
        self.show(found, text=self._record)
        return EXIT_DONE

    @verb("wait", BASE_MODEL, arg("--timeout", type=duration, default=0.0, help="0 for no end"))
    def wait(self, base_model: str, timeout: float) -> int:
        """Wait for a base model that is being prepared; fails where it was refused or nobody selected it."""
        return self._wait(base_model, timeout)

    @verb("deselect", BASE_MODEL, gives=(base_model_document,))
    def deselect(self, base_model: str) -> None:
        """Take a choice back; what was registered stays."""
        self.show(self.client.post(f"{address(base_model)}/deselect"), text=self._record)

    def _wait(self, base_model: str, timeout: float) -> int:
        found, is_late = self.watch(address(base_model), timeout=timeout or None, each=self._say_progress,
                                    is_over=lambda document: document["selection"] in {None, "READY"})
        self.show(found, text=self._record)
        if is_late:
            self.say("It is still being prepared; that goes on.")
            return EXIT_TIMED_OUT
        if found["selection"] == "READY":
            return EXIT_DONE
        if found["failureReason"]:
            return EXIT_WORK_FAILED
        self.say(f"{found['repository']} is not selected. `base-models select {found['repository']}` selects it.")
        return EXIT_REFUSED

    def _say_progress(self, document: dict[str, Any]) -> None:
        progress = document["progress"] or {}
        if progress.get("total"):
            self.say(f"{progress.get('stage') or 'fetching'}: {progress['done'] / progress['total']:.0%}")
        elif document["selection"] not in {None, "READY"}:
            self.say(str(progress.get("stage") or document["selection"]).lower())

    def _table(self, document: dict[str, Any]) -> None:
        if not document["models"]:
            self.say("None is selected yet. `base-models list --all` shows what is allowed.")
            return
        self.table(["ID", "REPOSITORY", "VERSION", "COMMIT", "PARAMETERS", "CONTEXT", "METHODS", "STATUS"],
                   [[row["id"][:SHOWN], row["repository"], row["reference"], (row["revision"] or "")[:SHOWN],
                     shown_count(row["parameters"]), row["contextLength"], ", ".join(row["methods"]), row["status"]]
                    for row in document["models"]], right=["PARAMETERS", "CONTEXT"])

    def _record(self, found: dict[str, Any]) -> None:
        self.facts([
            ("ID", found["id"]), ("Repository", found["repository"]), ("Status", found["status"]),
            ("Selection", found["selection"]), ("Commit", found["revision"]), ("Version", found["reference"]),
            ("Model ID", found["modelId"]), ("Parameters", _parameters(found)), ("Context", found["contextLength"]),
            ("Methods", ", ".join(found["methods"]) or "none"), ("Allowed for", found["allowedFor"]),
            ("Served on", ", ".join(found["servingProfiles"]) or None), ("Why", found["servingOnlyReason"]),
            ("Chat template", found["chatTemplateSha256"]),
            ("Corrected", found["chatTemplateCorrection"]), ("", found["chatTemplateNote"]),
            ("License", found["license"] or None), ("Weights", _weights(found)),
            ("Failed", found["failureReason"])], title=found["title"] or "Base model")
        self._admitted(found)

    def _admitted(self, found: dict[str, Any]) -> None:
        others = "others are refused" if found["envelopes"]["strict"] else "others are admitted with a warning"
        print(f"\nRuns this box admits as measured ({others})")
        if not found["runs"]:
            print("  nothing measured yet")
            return
        rows = [[method, precision, run["gpus"], run["deviceProfile"], run["maxSeqLength"], run["memoryPerGpuGib"],
                 run["hostMemoryPerNodeGib"]]
                for run in found["runs"] for method in run["methods"] for precision in run["precisions"]]
        self.table(["METHOD", "PRECISION", "GPUS", "DEVICE", "MAX LENGTH", "GPU MEMORY PER GPU (GiB)",
                    "HOST MEMORY PER NODE (GiB)"], rows)


def address(base_model: str) -> str:
    """The route of a base model."""
    return f"{ROUTE}/{quote(base_model)}"


def shown_count(number: int | None) -> str | None:
    """A number of parameters as people say it."""
    if number is None:
        return None
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.1f} M"


def _parameters(found: dict[str, Any]) -> str | None:
    total = shown_count(found["parameters"]) or (f"{found['nominalBillions']} B by name" if found["nominalBillions"]
                                                 else None)
    active = found["nominalActiveBillions"]
    return f"{total} ({active} B active)" if active else total


def _weights(found: dict[str, Any]) -> str | None:
    weights = found["weights"]
    return f"{(weights['bytes'] or 0) / 1e6:.0f} MB in {weights['folder']}" if weights else None
