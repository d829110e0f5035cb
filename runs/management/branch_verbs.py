"""The verbs of `runs` that have to do with branches, and with runs beside each other."""

from typing import Any

from optimize_site.kernel.commands import EXIT_DONE, EXIT_REFUSED, arg, read_document, verb
from optimize_site.kernel.errors import InvalidInput, Problem
from runs import branch_text, compare_text
from runs.branches_api import sweep_document
from runs.errors import RunRefused
from runs.lineage import branch_document
from runs.loss_windows import Terms
from runs.management.following import EXIT_STATUS, ROUTE, FollowedRuns, address
from runs.phases import PHASES, title
from runs.render import run_document

COMPARISONS = "/v1/training/comparisons"
RUN = arg("run", metavar="RUN", help="ID, or the beginning of one")
SNAPSHOT = arg("--snapshot", required=True, metavar="SNAPSHOT", help="the save to start from")
STEPS = arg("--steps", type=int, required=True, help="updates to train; the branch stops there")
RESTORE = arg("--restore", choices=["auto", "weights", "trainingState"], default="auto",
              help="auto keeps the optimizer, generators and place in the data wherever that is possible")
SUBMISSION = arg("--submission-id", default="", dest="submission", help="makes every resend reach the same runs")
CHILD = (arg("-f", "--overrides", default="", metavar="FILE", help="fields to change; - is standard input"),
         arg("--config-name", default="", dest="config_name"), arg("--description", default=""),
         arg("--dry-run", action="store_true", help="check it, start nothing"), SUBMISSION,
         arg("--wait", action="store_true", help="until the branch is over"), EXIT_STATUS)
CHILD_GIVES = (branch_document, "isNew", "warnings")
PAGE = (arg("--limit", type=int, default=50), arg("--offset", type=int, default=0))


class BranchVerbs(FollowedRuns):
    """Branching, sweeping, and reading what came of what."""

    @verb("branch", RUN, SNAPSHOT,
          arg("--steps", type=int, default=None, help="updates to train; the branch stops there"),
          arg("--epochs", type=int, default=None, help="instead of --steps: passes over the data, from the weights"),
          arg("--max-steps", type=int, default=None, dest="max_steps", help="with --epochs: as maxSteps in a "
              "descriptor"),
          RESTORE, *CHILD, gives=CHILD_GIVES, waited=(run_document,))
    def branch(self, run: str, snapshot: str, steps: int | None, epochs: int | None, max_steps: int | None,
               restore: str, **child: Any) -> int:
        """Start another run from a snapshot of a run."""
        budget = {"steps": steps, "epochs": epochs, "maxSteps": max_steps}
        return self._start_child("branch", run, budget | {"snapshot": snapshot, "restoreMode": restore}, **child)

    @verb("continue", RUN, arg("--snapshot", default="", metavar="SNAPSHOT", help="the save to go on from; the newest "
                               "with training state unless given"),
          STEPS, *CHILD, gives=CHILD_GIVES, waited=(run_document,))
    def continue_run(self, run: str, snapshot: str, steps: int, **child: Any) -> int:
        """Go on with a run's training in another run: optimizer, generators and place in the data go on."""
        return self._start_child("continue", run, {"steps": steps, "snapshot": snapshot}, **child)

    def _start_child(self, name: str, run: str, body: dict[str, Any], *, overrides: str, config_name: str,
                     description: str, dry_run: bool, submission: str, wait: bool, exit_status: bool) -> int:
        _refuse({"--wait does not go with --dry-run.": wait and dry_run,
                 "--exit-status requires --wait.": exit_status and not wait}, name)
        body |= {"configName": config_name, "description": description, "submissionId": submission, "dryRun": dry_run,
                 "overrides": read_document(overrides) if overrides else {}}
        route = f"{address(run)}/{name}"
        if dry_run:
            return self._planned(self.client.post(route, body))
        found = self.submit(route, body)
        if wait:
            self.say(f"Branch {found['runId']}")
            return self.wait_for(found["runId"], None, exit_status)
        self.show_made(found, "runId", text=lambda row: self._branches([row]))
        return EXIT_DONE

    @verb("branches", RUN, arg("--submission", default="", help="those of one submission"), *PAGE)
    def branches(self, run: str, submission: str, limit: int, offset: int) -> None:
        """Show a run's direct branches, newest first."""
        found = self.client.get(f"{ROUTE}/{run}/branches", submission=submission, limit=limit, offset=offset)
        self.show(found, text=lambda page: self._branches(page["branches"]))

    @verb("tree", RUN, arg("--depth", type=int, default=0, help="levels below it; 0 is all"))
    def tree(self, run: str, depth: int) -> None:
        """Show a run with all its branches below it."""
        found = self.client.get(f"{ROUTE}/{run}/tree", depth=depth)
        self.show(found, text=lambda root: self.table(branch_text.BRANCH_COLUMNS, list(branch_text.tree_rows(root))))

    @verb("ancestry", RUN)
    def ancestry(self, run: str) -> None:
        """Show the runs that led to this one, the first one first."""
        self.show(self.client.get(f"{ROUTE}/{run}/ancestry"), text=lambda found: self._branches(found["runs"]))

    @verb("sweep", RUN, SNAPSHOT, STEPS, RESTORE,
          arg("-g", "--grid", required=True, metavar="FILE", help="axes with paths and values; - is standard input"),
          arg("--description", default=""), arg("--dry-run", action="store_true", help="check it, start nothing"),
          SUBMISSION, arg("--compare", action="store_true", help="wait for all of them, then compare their scores"),
          arg("--dataset", default="", help="with --compare: the rows to score them on"),
          arg("--grader", default="", help="with --compare: what scores them"),
          arg("--max-completion-tokens", type=int, default=0, dest="tokens", help="with --compare: the longest answer"),
          gives=(sweep_document, "comparison"))
    def sweep(self, run: str, snapshot: str, steps: int, restore: str, grid: str, description: str, dry_run: bool,
              submission: str, compare: bool, dataset: str, grader: str, tokens: int) -> None:
        """Start a branch for each point of a grid; all are checked before any is started."""
        _refuse_flags(compare=compare, dry_run=dry_run, dataset=dataset, others=bool(dataset or grader or tokens))
        body = {"snapshot": snapshot, "steps": steps, "restoreMode": restore, "grid": read_document(grid),
                "description": description, "submissionId": submission, "dryRun": dry_run}
        send = self.client.post if dry_run else self.submit
        wish = {"source": snapshot, "allBranches": run, "dataset": dataset, "grader": grader,
                "maxCompletionTokens": tokens}
        if compare:
            self.client.post(COMPARISONS, wish | {"dryRun": True})
        found = send(f"{ROUTE}/{run}/sweep", body)
        if compare:
            self._await([point["childRunId"] for point in found["points"]])
            found["comparison"] = self.client.post(COMPARISONS, wish)
        self.show(found, text=_print_ids if self.options.quiet and not dry_run else
                  lambda sweep: self._points(sweep, run, snapshot))

    def _await(self, runs: list[str]) -> None:
        for run in runs:
            found, _ = self.watch(f"{ROUTE}/{run}", timeout=None, each=lambda _: None,
                                  is_over=lambda document: document["phase"] in PHASES.terminal)
            self.say(f"The branch {run[:12]} is {title(found['phase'])}.")

    @verb("compare", arg("runs", nargs="+", metavar="RUN", help="the first one is what the others are held against"),
          arg("--window", type=int, default=Terms.window, help="updates that a mean difference is taken over"),
          arg("--margin", type=float, default=Terms.margin, help="the mean difference at which two runs part"),
          arg("--spike-factor", type=float, default=Terms.spike_factor, dest="spike_factor",
              help="a gradient norm over so many times the run's median is a spike"),
          arg("--across-plans", action="store_true", dest="across_plans", help="though their plans differ"),
          arg("--figure", default="", metavar="NAME", help="the loss, or the reward of grpo and gspo, unless given: "
              "validationLoss, preferenceAccuracy, rewardMargin, kl"))
    def compare(self, runs: list[str], window: int, margin: float, spike_factor: float, across_plans: bool,
                figure: str) -> None:
        """Show how a figure of runs lies to each other, and what their configurations differ in."""
        found = self.client.get(f"{ROUTE}/compare", run=runs, window=window, margin=margin, spikeFactor=spike_factor,
                                acrossPlans=across_plans, figure=figure)
        self.show(found, text=self._compared)

    def _compared(self, found: dict[str, Any]) -> None:
        columns = compare_text.run_columns(found)
        self.table(columns, compare_text.compared_rows(found), right=[columns[3], columns[4], "MEAN DIFFERENCE"])
        print(f"\nMean difference in {compare_text.name_of(found['figure'])} for each {found['window']} updates")
        self.table(compare_text.window_columns(found), compare_text.window_rows(found),
                   right=compare_text.window_columns(found)[1:])
        if found["differences"]:
            print("\nWhat their configurations differ in")
            self.table(["SETTING", *(run["runId"][:12] for run in found["runs"])], compare_text.difference_rows(found))

    def _planned(self, found: dict[str, Any]) -> int:
        self.show(found, text=lambda document: self.facts(branch_text.planned_rows(document), title="Dry run"))
        if found["valid"]:
            return EXIT_DONE
        if self.is_text:
            raise RunRefused.because([Problem(**problem) for problem in found["problems"]])
        return EXIT_REFUSED

    def _branches(self, rows: list[dict[str, Any]]) -> None:
        self.table(branch_text.BRANCH_COLUMNS, branch_text.branch_rows(rows), right=["SOURCE STEP", "STEPS", "LAST"])

    def _points(self, sweep: dict[str, Any], run: str, snapshot: str) -> None:
        self.table(branch_text.POINT_COLUMNS, branch_text.point_rows(sweep["points"]))
        print(f"\nSubmission {sweep['submissionId']}: sending it again reaches the same runs.")
        if "comparison" in sweep:
            print(f"Comparison {sweep['comparison']['comparisonId']}: `./optimize comparisons get` shows its state.")
        else:
            print("Once they are completed, compare their scores: `./optimize comparisons create --source "
                  f"{snapshot[:12]} --all-branches {run[:12]} --dataset DATASET`.")


def _print_ids(sweep: dict[str, Any]) -> None:
    """The comparison that was made, or else each branch on a line of its own."""
    made = [sweep["comparison"]["comparisonId"]] if "comparison" in sweep else [
        point["childRunId"] for point in sweep["points"]]
    print("\n".join(made))


def _refuse_flags(*, compare: bool, dry_run: bool, dataset: str, others: bool) -> None:
    _refuse({"--compare does not go with --dry-run.": compare and dry_run,
             "--compare needs --dataset.": compare and not dataset,
             "--dataset, --grader and --max-completion-tokens go with --compare.": others and not compare}, "sweep")


def _refuse(wrong: dict[str, bool], verb: str) -> None:
    for sentence, is_wrong in wrong.items():
        if is_wrong:
            raise InvalidInput(sentence, code="usage", hint=f"`./optimize runs {verb} --help` shows its use.")
