"""`workloads` (or `projects`): tasks, what judges them, what they refer to, and how their models score."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.ids import SHOWN
from registry.commands.shown import marked
from registry.workload_render import reference_document, workload_document

ROUTE = "/v1/training/workloads"
WORKLOAD = arg("workload", metavar="WORKLOAD", help="name, ID, or the beginning of an ID")
DATASET = arg("--dataset", default="", metavar="DATASET", help="NS/NAME[:REF], a name here, or a hash")
GRADER = arg("--grader", default="", help="json-label-match unless given")
INSTRUCTIONS = arg("--grader-instructions", default="", metavar="TEXT", help="what a grader that is a model is told")
AGAIN = arg("--grader-instructions", default="", metavar="TEXT",
            help="what a grader that is a model is told; left out, what it was told before is dropped")
NOTE = arg("--note", default="", help="why, for the history")
CHAMPION = "champion"


class Command(NounCommand):
    """Makes and shows workloads."""

    noun = "workloads"
    help = "Workloads: a task's evaluation dataset and grader, its references and its scores."

    @verb("create", arg("name", metavar="NAME"), DATASET, GRADER, INSTRUCTIONS,
          arg("--description", default=""), gives=(workload_document,))
    def create(self, name: str, dataset: str, grader: str, grader_instructions: str, description: str) -> None:
        """Make a workload; its name is its registry namespace too."""
        made = self.client.post(ROUTE, {"name": name, "dataset": dataset, "grader": grader,
                                        "graderInstructions": grader_instructions, "description": description})
        self.show(made, text=lambda document: print(document["workloadId"]))

    @verb("list", arg("--archived", action="store_true", help="archived ones too"),
          arg("--limit", type=int, default=100), arg("--offset", type=int, default=0))
    def list_workloads(self, archived: bool, limit: int, offset: int) -> None:
        """Show the workloads, newest first."""
        self.show(self.client.get(ROUTE, archived=archived, limit=limit, offset=offset), text=self._table)

    @verb("get", WORKLOAD)
    def get(self, workload: str) -> None:
        """Show a workload: what judges it and what it refers to."""
        self.show(self.client.get(address(workload)), text=self._record)

    @verb("rename", WORKLOAD, arg("name", metavar="NAME"), gives=(workload_document,))
    def rename(self, workload: str, name: str) -> None:
        """Change the label; the namespace stays."""
        self.show(self.client.post(f"{address(workload)}/rename", {"name": name}), text=self._record)

    @verb("annotate", WORKLOAD, arg("--description", default=None, help="an empty text clears it"),
          gives=(workload_document,))
    def annotate(self, workload: str, description: str | None) -> None:
        """Set or clear the note."""
        self.show(self.client.post(f"{address(workload)}/annotate", {"description": description}), text=self._record)

    @verb("archive", WORKLOAD, gives=(workload_document,))
    def archive(self, workload: str) -> None:
        """Take a finished workload out of the lists; it takes no new work then."""
        self.confirm(f"Archive the workload {workload}?", needs_force=True)
        self.show(self.client.post(f"{address(workload)}/archive"), text=self._archived)

    @verb("unarchive", WORKLOAD, gives=(workload_document,))
    def unarchive(self, workload: str) -> None:
        """Bring an archived workload back."""
        self.show(self.client.post(f"{address(workload)}/unarchive"),
                  text=lambda found: print(f"The workload {found['name']} is open."))

    @verb("set-evaluation", WORKLOAD, arg("--dataset", required=True, metavar="DATASET"), GRADER, AGAIN,
          gives=(workload_document,))
    def set_evaluation(self, workload: str, dataset: str, grader: str, grader_instructions: str) -> None:
        """Set the dataset and grader that judge its models, and what a grader that is a model is told; all three anew.
        """
        body = {"dataset": dataset, "grader": grader, "graderInstructions": grader_instructions}
        self.show(self.client.post(f"{address(workload)}/set-evaluation", body), text=self._record)

    @verb("refs set", WORKLOAD, arg("name", metavar="REF", help="base, candidate or champion"),
          arg("model", metavar="MODEL"), NOTE, gives=(reference_document,))
    def set_reference(self, workload: str, name: str, model: str, note: str) -> None:
        """Point a reference at a model; `champion` is a promotion."""
        body = {"model": model, "note": note, "force": self.options.force}
        self.show(self.client.post(f"{address(workload)}/refs/{quote(name, safe='')}", body), text=self._reference)

    @verb("refs get", WORKLOAD, arg("name", metavar="REF"))
    def get_reference(self, workload: str, name: str) -> None:
        """Show where a reference points."""
        self.show(self.client.get(f"{address(workload)}/refs/{quote(name, safe='')}"), text=self._reference)

    @verb("history", WORKLOAD)
    def history(self, workload: str) -> None:
        """Show what was changed, oldest first."""
        self.show(self.client.get(f"{address(workload)}/history", limit=100), text=self._history)

    @verb("scores", WORKLOAD, DATASET, GRADER, arg("--grader-instructions", default="", metavar="TEXT",
                                                   help="those a judge was told; else the workload's"))
    def scores(self, workload: str, dataset: str, grader: str, grader_instructions: str) -> None:
        """Show the scores by base model and configuration."""
        self.show(self.client.get(f"{address(workload)}/scores", dataset=dataset, grader=grader,
                                  graderInstructions=grader_instructions), text=self._scores)

    @verb("flips", WORKLOAD, arg("a", metavar="A"), arg("b", metavar="B"), arg("--limit", type=int, default=20))
    def flips(self, workload: str, a: str, b: str, limit: int) -> None:
        """Compare two models on the same rows: the paired difference and the rows that flipped."""
        found = self.client.get(f"{address(workload)}/flips", a=a, b=b)
        self.show(found, text=lambda document: self._flips(document, limit))

    @verb("promote", WORKLOAD, arg("model", metavar="MODEL"), NOTE, gives=(reference_document,))
    def promote(self, workload: str, model: str, note: str) -> None:
        """Make a model the champion, on the evidence of its evaluation; --force with --note goes ahead without."""
        body = {"model": model, "note": note, "force": self.options.force}
        self.show(self.client.post(f"{address(workload)}/promote", body), text=self._reference)

    def _table(self, document: dict[str, Any]) -> None:
        self.table(["ID", "NAME", "DATASET", "GRADER", "CREATED"],
                   [[row["workloadId"][:SHOWN], marked(row["name"], row), (row["evaluation"] or {}).get("dataset"),
                     (row["evaluation"] or {}).get("grader"), row["createdAt"][:16]] for row in document["workloads"]])

    def _record(self, found: dict[str, Any]) -> None:
        evaluation = found["evaluation"] or {}
        namespace = found["namespace"] + (" (archived)" if found["isNamespaceArchived"] else "")
        rows = [("ID", found["workloadId"]), ("Name", marked(found["name"], found)), ("Namespace", namespace),
                ("Description", found["description"] or None), ("Dataset", evaluation.get("dataset", "none")),
                ("Grader", evaluation.get("grader")), ("Instructions", evaluation.get("graderInstructions"))]
        rows += [(name.capitalize(), f"{ref['reference']} ({ref['modelId'][:SHOWN]}), {ref['movedBy']}")
                 for name, ref in found["references"].items()]
        self.facts(rows, title="Workload")

    def _archived(self, found: dict[str, Any]) -> None:
        name, namespace = found["name"], found["namespace"]
        print(f"The workload {name} is archived; `./optimize workloads unarchive {name}` brings it back.")
        if not found["isNamespaceArchived"]:
            print(f"Its namespace {namespace} is still open; `./optimize registry namespaces archive {namespace}` "
                  "archives it too.")

    def _reference(self, found: dict[str, Any]) -> None:
        evidence = (found["evidence"] or {}).get("evaluation") or {}
        self.facts([("Reference", found["name"]), ("Model", found["reference"]), ("Model ID", found["modelId"]),
                    ("Variant", found["variant"]), ("Base model", found["baseModel"]), ("Location", found["location"]),
                    ("Moved by", f"{found['movedBy']}, {found['movedAt'][:16]}"),
                    ("Score", shown_score(evidence) if evidence else None)], title="Reference")

    def _history(self, document: dict[str, Any]) -> None:
        self.table(["WHEN", "WHO", "WHAT", "DETAIL", "WHY"],
                   [[row["at"][:19], row["actor"], row["type"].partition(".")[2].replace("_", " "), _detail(row),
                     row["reason"]] for row in document["history"]])

    def _scores(self, document: dict[str, Any]) -> None:
        print(f"{document['workload']} on {document['dataset'] or 'no dataset'} by {document['grader'] or 'no grader'}")
        for table in document["tables"]:
            print(f"\n{table['baseModel']} at {table['baseRevision'][:SHOWN]}")
            rows = [["(base model)", None, None, *_cells(table["baseline"])]] if table["baseline"] else []
            rows += [[entry["configName"] or (entry["configHash"] or "")[:SHOWN], run["model"],
                      (run["runId"] or "")[:SHOWN], *_cells(run)]
                     for entry in table["configurations"] for run in entry["runs"]]
            self.table(["CONFIGURATION", "MODEL", "RUN", "SCORE", "EXACT", "UNSCORED"], rows,
                       right=["SCORE", "EXACT", "UNSCORED"])

    def _flips(self, document: dict[str, Any], limit: int) -> None:
        paired = document["paired"]
        self.facts([("A", f"{document['a']['model']}: {shown_score(document['a'])}"),
                    ("B", f"{document['b']['model']}: {shown_score(document['b'])}"),
                    ("B minus A", _difference(paired) if paired else "no row was scored for both")], title="Comparison")
        self.table(["ROW", "", "EXPECTED", "A", "B"],
                   [[flip["position"], flip["direction"], one_line(flip["expected"]), one_line(flip["a"]["answer"]),
                     one_line(flip["b"]["answer"])] for flip in document["flips"][:limit]])
        if len(document["flips"]) > limit:
            self.say(f"{len(document['flips']) - limit} more rows flipped; --limit shows them.")


def address(workload: str) -> str:
    """The route of a workload."""
    return f"{ROUTE}/{quote(workload, safe='')}"


def shown_score(document: dict[str, Any]) -> str:
    """A mean score with its 95 % interval."""
    if document.get("meanScore") is None:
        return "not scored"
    interval = document.get("interval")
    return f"{document['meanScore']:.4f}" + (f" [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else "")


def one_line(text: str, width: int = 48) -> str:
    """The beginning of a text on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[:width - 1] + "…"


def _cells(score: dict[str, Any]) -> list[Any]:
    exact = score["exactMatchRate"]
    return [shown_score(score), f"{exact:.1%}" if exact is not None else None, score["unscored"] or 0]


def _difference(paired: dict[str, Any]) -> str:
    low, high = paired["interval"]
    verdict = "decided" if paired["decided"] else "undecided"
    return (f"{paired['difference']:+.4f} [{low:+.4f}, {high:+.4f}], {verdict}; {paired['better']} rows better, "
            f"{paired['worse']} worse of {paired['rows']}")


def _detail(row: dict[str, Any]) -> str:
    known = {"type", "at", "actor", "reason", "evidence", "modelId", "previousModelId"}
    return ", ".join(f"{key} {one_line(str(value))}" for key, value in row.items() if key not in known and value)
