"""`./optimize trained-models`: models by their ID."""

from typing import Any
from urllib.parse import quote

from evaluations.trained_models import trained_model_document
from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.ids import SHOWN
from registry.commands.models import ADAPTER, DESCRIPTOR, send_model
from registry.commands.shown import kin, marked
from registry.management.commands.workloads import shown_score

ROUTE = "/v1/trained-models"
MODEL = arg("model", metavar="MODEL", help="a model ID, the beginning of one, or a name")


class Command(NounCommand):
    noun = "trained_models"
    help = "Models by ID; `registry models` has them by namespace and version."

    @verb("list", arg("--workload", "--project", dest="workload", default="", metavar="WORKLOAD"),
          arg("--base-model", default="", metavar="REPOSITORY", help="the base itself too"),
          arg("--base-model-id", default="", metavar="ID", help="only what was trained from it"),
          arg("--limit", type=int, default=50), arg("--offset", type=int, default=0))
    def list_models(self, workload: str, base_model: str, base_model_id: str, limit: int, offset: int) -> None:
        """Show models, newest first, narrowed by one of three."""
        found = self.client.get(ROUTE, workload=workload, baseModel=base_model, baseModelId=base_model_id, limit=limit,
                                offset=offset)
        self.show(found, text=lambda document: self.table(
            ["ID", "MODEL", "BASE MODEL", "METHOD", "RUN", "REGISTERED"],
            [[row["modelId"][:SHOWN], row["reference"], row["baseModel"], row["method"],
              (row["runId"] or "")[:SHOWN], row["createdAt"][:16]] for row in document["models"]]))

    @verb("get", MODEL)
    def get(self, model: str) -> None:
        """Show a model: what it came from, what it cost, how it scored."""
        self.show(self.client.get(address(model)), text=self._record)

    @verb("register", DESCRIPTOR, ADAPTER, gives=(trained_model_document,))
    def register(self, file: str, adapter: str) -> None:
        """Register a base model, or an adapter from elsewhere; prints its ID."""
        done = send_model(self, file, adapter, register=ROUTE, send=f"{ROUTE}/adapter")
        self.show(done, text=lambda document: print(document["modelId"]))

    @verb("annotate", MODEL, arg("--description", default=None, help="an empty text clears it"),
          gives=(trained_model_document,))
    def annotate(self, model: str, description: str | None) -> None:
        """Set or clear the note."""
        self.show(self.client.post(f"{address(model)}/annotate", {"description": description}), text=self._record)

    def _record(self, found: dict[str, Any]) -> None:
        cost = found["cost"]
        self.facts([
            ("Model ID", found["modelId"]), ("Reference", marked(found["reference"], found)),
            ("Workload", found["workload"]), ("Base model", found["baseModel"]), ("Method", found["method"]),
            ("Run", found["runId"]), ("Configuration", found["configHash"]), *kin(found),
            ("Training cost", f"{cost['deviceSeconds']:,.0f} device seconds, {cost['amount']:g}" if cost else None),
            ("Serving", found["servingModel"].get("ref") or "base model"),
            ("Description", found["description"] or None)], title="Model")
        self.table(["EVALUATION", "DATASET", "GRADER", "SCORE"],
                   [[row["evaluationId"][:SHOWN], row["dataset"], row["grader"], shown_score(row)]
                    for row in found["evaluations"]], right=["SCORE"])


def address(model: str) -> str:
    """The route of a model."""
    return f"{ROUTE}/{quote(model, safe='/:@')}"
