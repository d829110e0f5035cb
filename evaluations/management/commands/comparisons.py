"""`comparisons`: score a snapshot and its branches on the same rows, and see who did best."""

from typing import Any
from urllib.parse import quote

from evaluations.comparison_render import comparison_document
from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.ids import SHOWN
from registry.commands.shown import marked

ROUTE = "/v1/training/comparisons"


class Command(NounCommand):
    """Makes and shows comparisons."""

    noun = "comparisons"
    help = "Comparisons: a snapshot and what was branched from it, scored on the same rows by the same grader."

    @verb("create", arg("--source", required=True, metavar="SNAPSHOT"),
          arg("--candidate", action="append", default=[], dest="candidates", metavar="MODEL",
              help="a model that a run or one of its saves became, or a run for the model it made"),
          arg("--branch", action="append", default=[], dest="branches", metavar="RUN"),
          arg("--all-branches", default="", dest="all_branches", metavar="PARENT"),
          arg("--dataset", default="", metavar="DATASET"), arg("--grader", default=""),
          arg("--max-completion-tokens", type=int, default=0, dest="tokens", metavar="N"),
          arg("--submission-id", default="", dest="submission"),
          arg("--dry-run", action="store_true", help="check its source, rows and grader, start nothing"),
          gives=(comparison_document,))
    def create(self, source: str, candidates: list[str], branches: list[str], all_branches: str, dataset: str,
               grader: str, tokens: int, submission: str, dry_run: bool) -> None:
        """Compare a snapshot with models, with runs, or with every completed branch of its run."""
        body = {"source": source, "candidates": candidates, "branches": branches, "allBranches": all_branches,
                "dataset": dataset, "grader": grader, "maxCompletionTokens": tokens, "submissionId": submission,
                "dryRun": dry_run}
        if dry_run:
            self.show(self.client.post(ROUTE, body), text=lambda _: print("Its source, rows and grader can be used."))
            return
        self.show_made(self.client.post(ROUTE, body), "comparisonId", text=self._record)

    @verb("get", arg("comparison", metavar="COMPARISON", help="ID, or the beginning of one"))
    def get(self, comparison: str) -> None:
        """Show a comparison: each model's score, and in what it differs."""
        self.show(self.client.get(f"{ROUTE}/{quote(comparison, safe='')}"), text=self._record)

    @verb("list", arg("--workload", "--project", default="", dest="workload", metavar="WORKLOAD"),
          arg("--archived", action="store_true", help="those of archived workloads too"),
          arg("--limit", type=int, default=50), arg("--offset", type=int, default=0))
    def list_comparisons(self, workload: str, archived: bool, limit: int, offset: int) -> None:
        """Show comparisons, newest first."""
        found = self.client.get(ROUTE, workload=workload, archived=archived, limit=limit, offset=offset)
        self.show(found, text=lambda page: self.table(
            ["ID", "WORKLOAD", "PHASE", "SOURCE", "STEP", "TARGETS", "WINNER", "CREATED"],
            [[row["comparisonId"][:SHOWN], marked(row["workload"], row), row["phase"], row["sourceRunId"][:SHOWN],
              row["sourceStep"], row["targets"], (row["winnerRunId"] or "")[:SHOWN], row["createdAt"][:16]]
             for row in page["comparisons"]], right=["STEP", "TARGETS"]))

    def _record(self, found: dict[str, Any]) -> None:
        cost = found["cost"]
        self.facts([("Comparison", found["comparisonId"]), ("Workload", marked(found["workload"], found)),
                    ("Phase", found["phase"]),
                    ("Source", f"run {found['sourceRunId'][:SHOWN]} at step {found['sourceStep']}"),
                    ("Dataset", found["dataset"]), ("Grader", found["grader"]),
                    ("Fan", f"{found['fan']} branches" if found["fan"] is not None else None),
                    ("Winner", (found["winnerRunId"] or "")[:SHOWN] or None),
                    ("Training", f"{cost['trainingDeviceSeconds']} device seconds, the whole runs"),
                    ("Evaluation", f"{cost['evaluationDeviceSeconds']} device seconds"),
                    ("Failure", found["failureReason"])], title="Comparison")
        print()
        self.table(["RUN", "KIND", "STATE", "SCORE", "MODEL", "DIFFERS IN", "WHY"],
                   [[target["runId"][:SHOWN], target["kind"], target["state"], _number(target["meanScore"]),
                     target["model"], _differences(target), target["reason"]] for target in found["targets"]],
                   right=["SCORE"])


def _differences(target: dict[str, Any]) -> str | None:
    return ", ".join(f"{found['path']} {found['target']}" for found in target["differences"][:4]) or None


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"
