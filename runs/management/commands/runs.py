"""`runs`: start training runs, follow them, read what they did."""

import json
import sys
import time
from typing import Any

from optimize_site.kernel.commands import (
    EXIT_CHECK_FAILED,
    EXIT_DONE,
    EXIT_REFUSED,
    arg,
    duration,
    plain,
    read_document,
    verb,
)
from optimize_site.kernel.documents import parse_document
from optimize_site.kernel.errors import InvalidInput, Problem
from runs import render, runtime_text, table_text, text, verify_text
from runs.errors import RunRefused
from runs.lengths_text import lengths_rows
from runs.management.branch_verbs import BranchVerbs
from runs.management.following import EXIT_STATUS, ROUTE, address
from runs.management.rollout_verbs import RolloutVerbs
from runs.management.tensorboard_verbs import TensorboardVerbs
from runs.phases import title
from runs.preview_text import preview_lines
from runs.smoke import words as smoke_words

RUN = arg("run", metavar="RUN", help="ID, or the beginning of one")
RESTING = frozenset({"STARTING_JOB", "QUEUED", "PREPARING", "TRAINING", "PAUSING"})
PAUSE_POLL_SECONDS = 0.2


class Command(BranchVerbs, RolloutVerbs, TensorboardVerbs):
    """Starts, follows and shows training runs."""

    noun = "runs"
    help = "Training runs: one base model, one dataset, one configuration, one adapter."

    @verb("start", arg("-f", "--file", default="", metavar="FILE", help="JSON or YAML; - is standard input"),
          arg("--set", action="append", default=[], dest="changes", metavar="PATH=VALUE",
              help="lay a value over the file: config.hyperparams.lora.rank=16"),
          arg("--dry-run", action="store_true", help="check it, start nothing"),
          arg("--show-resolved", action="store_true", help="with --dry-run: every setting with its value"),
          arg("--wait", action="store_true", help="until it is over"), EXIT_STATUS,
          gives=(render.submission_document,), waited=(render.run_document,))
    def start(self, file: str, changes: list[str], dry_run: bool, show_resolved: bool, wait: bool,
              exit_status: bool) -> int:
        """Start a run from a descriptor, after checking it and asking."""
        _refuse_flags(show_resolved=show_resolved and not dry_run, exit_status=exit_status and not wait,
                      wait=wait and dry_run, file=not file and not changes)
        document = with_changes(read_document(file) if file else {"kind": "run"}, changes)
        if dry_run:
            return self._dry_run(document, show_resolved)
        if not self.options.force and sys.stdin.isatty():
            self._ask(document)
        started = self.submit(ROUTE, document)
        if wait:
            self.say(f"Run {started['runId']}")
            return self.wait_for(started["runId"], None, exit_status)
        self.show_made(started, "runId", text=self._started)
        return EXIT_DONE

    @verb("preview", arg("run", nargs="?", default="", metavar="RUN", help="ID, or the beginning of one"),
          arg("-f", "--file", default="", metavar="FILE", help="a descriptor: JSON or YAML; - is standard input"),
          arg("--rows", type=int, default=3, metavar="N", help="how many, 20 at most"),
          arg("--tokens", action="store_true", help="each token on a line of its own, with its ID"))
    def preview(self, run: str, file: str, rows: int, tokens: bool) -> None:
        """Show the first rows as tokens, those that would be trained marked."""
        if bool(run) == bool(file):
            raise InvalidInput("A preview is of a run or of a descriptor: give RUN or -f FILE.")
        found = self.client.get(f"{address(run)}/preview", rows=rows) if run else self.client.post(
            f"{ROUTE}/preview", read_document(file), rows=rows)
        self.show(found, text=lambda shown: print(plain("\n".join(preview_lines(shown, with_tokens=tokens)))))

    @verb("get", RUN, arg("--settings", action="store_true", help="configuration and execution, stated values marked"))
    def get(self, run: str, settings: bool) -> None:
        """Show a run: its state, results, cost."""
        self.show(self.client.get(address(run)), text=lambda found: self._record(found, settings))

    @verb("list", arg("--phase", default="", help="a phase, or `open` for the unfinished"),
          arg("--workload", "--project", default="", dest="workload", metavar="WORKLOAD"),
          arg("--archived", action="store_true", help="those of archived workloads too"),
          arg("--limit", type=int, default=50), arg("--offset", type=int, default=0))
    def list_runs(self, phase: str, workload: str, archived: bool, limit: int, offset: int) -> None:
        """Show runs, newest first."""
        self.show(self.client.get(ROUTE, phase=phase, workload=workload, archived=archived, limit=limit, offset=offset),
                  text=self._table)

    @verb("wait", RUN, arg("--timeout", type=duration, default=None, help="then exit with 7; the run carries on"),
          EXIT_STATUS)
    def wait(self, run: str, timeout: float | None, exit_status: bool) -> int:
        """Follow a run to its end."""
        return self.wait_for(run, timeout, exit_status)

    @verb("cancel", RUN, gives=(render.run_document,))
    def cancel(self, run: str) -> None:
        """Stop a run. Its device is freed, its snapshots stay."""
        self.confirm(f"Cancel the run {run}?", needs_force=True)
        found = self.client.post(f"{address(run)}/cancel")
        self.show(found, text=lambda document: print(text.status_line(document)))

    @verb("pause", RUN, arg("--checkpoint", required=True, choices=["save", "latest"],
                            help="save: write a snapshot first; latest: end at once, keep the newest there is"),
          arg("--wait", action="store_true", help="until it rests and its device is free"),
          gives=(render.run_document, "isNew"), waited=(render.run_document,))
    def pause(self, run: str, checkpoint: str, wait: bool) -> None:
        """Have a run rest: its device is freed, and `resume` goes on from its newest save."""
        found = self.client.post(f"{address(run)}/pause", {"checkpoint": checkpoint})
        while wait and found["phase"] in RESTING:
            time.sleep(PAUSE_POLL_SECONDS)
            found = self.client.get(address(run))
        self.show(found, text=lambda document: print(text.pause_line(document)))

    @verb("resume", RUN, gives=(render.run_document,))
    def resume(self, run: str) -> None:
        """Go on with a paused run, as another attempt of it."""
        found = self.client.post(f"{address(run)}/resume")
        self.show(found, text=lambda document: print(text.status_line(document)))

    @verb("prioritize", RUN, arg("--behind", default="", metavar="RUN", help="right behind this one; in front of all "
                                 "unless given"), gives=(render.run_document,))
    def prioritize(self, run: str, behind: str) -> None:
        """Give a waiting run another place in the queue."""
        found = self.client.post(f"{address(run)}/prioritize", {"behind": behind})
        self.show(found, text=lambda document: print(text.status_line(document)))

    @verb("annotate", RUN, arg("--description", default=None, help="an empty text clears it"),
          arg("--config-name", default=None, dest="config_name", help="heads the configuration in the scores"),
          gives=(render.run_document,))
    def annotate(self, run: str, description: str | None, config_name: str | None) -> None:
        """Set or clear the notes on a run."""
        body = {"description": description, "configName": config_name}
        self.show(self.client.post(f"{address(run)}/annotate", body), text=self.record)

    @verb("metrics", RUN, arg("--limit", type=int, default=0, help="the most recent steps; all unless given"),
          arg("--columns", "--fields", default="", dest="columns", metavar="NAMES",
              help="more columns: a,b,c; a reward term's mean share is terms:NAME"))
    def metrics(self, run: str, limit: int, columns: str) -> None:
        """Show the figures of each update."""
        found = self.client.get(f"{address(run)}/metrics", limit=limit)["metrics"]
        self.show(found, text=lambda steps: self._metrics(steps, _names(columns)))

    @verb("hparams", RUN)
    def hparams(self, run: str) -> None:
        """Show the hyperparameters as the trainer was given them."""
        self.show(self.client.get(f"{address(run)}/hparams"), text=self._hparams)

    @verb("engine-config", RUN)
    def engine_config(self, run: str) -> None:
        """Show what was asked of the engine and what it runs with."""
        self.show(self.client.get(f"{address(run)}/engine-config"), text=self._engine_config)

    @verb("engine-runtime", RUN)
    def engine_runtime(self, run: str) -> None:
        """Show what the newest attempt really runs with: setup, model, rollout engines, memory."""
        self.show(self.client.get(f"{address(run)}/engine-runtime"), text=self._engine_runtime)

    @verb("grafana", RUN, arg("--attempt", type=int, default=None, help="over the time of this attempt alone"))
    def grafana(self, run: str, attempt: int | None) -> None:
        """Print a link to the run on the operator's Grafana dashboard, from its start to its end."""
        self.show(self.client.get(f"{address(run)}/grafana", attempt=attempt), text=self._grafana)

    @verb("snapshots", RUN, arg("--limit", type=int, default=50), arg("--offset", type=int, default=0))
    def snapshots(self, run: str, limit: int, offset: int) -> None:
        """Show the run's committed snapshots, newest first."""
        self.show(self.client.get(f"{address(run)}/snapshots", limit=limit, offset=offset), text=self._snapshots)

    @verb("verify", RUN, arg("--replay", action="store_true",
                             help="train the newest stretch between two saves again: its bytes must be the same"))
    def verify(self, run: str, replay: bool) -> int:
        """Check the run's phases, figures, saves and models against what was recorded; 8 where something disagrees."""
        found = self.client.get(f"{address(run)}/verify", replay=replay or None)
        self.show(found, text=self._verified)
        return EXIT_DONE if found["verified"] else EXIT_CHECK_FAILED

    @verb("smoke", RUN, arg("--limit", type=int, default=50), arg("--offset", type=int, default=0))
    def smoke(self, run: str, limit: int, offset: int) -> None:
        """Show a smoke check's verdict and the rows that were not reproduced."""
        self.show(self.client.get(f"{address(run)}/smoke", limit=limit, offset=offset), text=self._smoke)

    @verb("log", RUN, arg("--stream", choices=["stderr", "stdout"], default="stderr"),
          arg("--lines", type=int, default=200), arg("--attempt", type=int, default=None))
    def log(self, run: str, stream: str, lines: int, attempt: int | None) -> None:
        """Show the last lines that the run's job wrote."""
        found = self.client.get(f"{address(run)}/log", stream=stream, lines=lines, attempt=attempt)
        self.show(found, text=lambda document: print("\n".join(plain(line) for line in document["lines"])))

    # Starting --------------------------------------------------------------------------------------------------------

    def _dry_run(self, document: Any, show_resolved: bool) -> int:
        found = self.client.post(f"{ROUTE}/dry-run", document)
        self.show(found, text=lambda checked: self._checked(checked, show_resolved))
        return EXIT_DONE if found["valid"] else EXIT_REFUSED

    def _ask(self, document: Any) -> None:
        found = self.client.post(f"{ROUTE}/dry-run", document)
        if not found["valid"]:
            raise RunRefused.because([Problem(**problem) for problem in found["problems"]])
        if self.is_text:
            self._checked(found, False)
        self.confirm("Start this run?", needs_force=False)

    def _started(self, started: dict[str, Any]) -> None:
        self.facts([("Run", started["runId"]), ("Phase", title(started["phase"])),
                    ("Configuration", started["configHash"]),
                    *(("Warning", warning["message"]) for warning in started["warnings"])])
        self._previous(started["previousRuns"])
        self.say(f"Follow it with `./optimize runs wait {started['runId'][:12]}`.")

    def _checked(self, found: dict[str, Any], show_resolved: bool) -> None:
        self.facts(text.dry_run_rows(found), title="Dry run")
        for problem in found["problems"]:
            print(plain(f"  {problem['path']}: {problem['message']} {problem['hint']}".rstrip()))
        self.facts(text.estimate_rows(found["estimates"]), title="Estimates")
        if found["resolved"]["lengths"] is not None:
            self.facts(lengths_rows(found["resolved"]["lengths"]), title="Lengths")
        if found["diagnostics"] is not None:
            self.facts(text.diagnostics_rows(found["diagnostics"]), title="Dataset")
        if show_resolved:
            self._settings(found["resolved"] | {"stated": found["stated"]})
        self._previous(found["previousRuns"])

    def _previous(self, previous: list[dict[str, Any]]) -> None:
        if previous:
            print("\nEarlier runs of this recipe")
            self.table(["RUN", "PHASE", "CONFIGURATION", "MODEL", "SCORE", "CREATED"],
                       table_text.previous_rows(previous), right=["SCORE"])

    # Showing ---------------------------------------------------------------------------------------------------------

    def _record(self, run: dict[str, Any], settings: bool) -> None:
        self.record(run)
        if settings:
            self._settings(run)

    def _settings(self, run: dict[str, Any]) -> None:
        rows = text.settings_rows(run)
        width = max(len(name) for name, _ in rows)
        print("\nSettings")
        for name, value in rows:
            print(plain(f"  {name:<{width}} {value}"))

    def _table(self, page: dict[str, Any]) -> None:
        self.table(["RUN", "WORKLOAD", "METHOD", "BASE MODEL", "DATASET", "PHASE", "STEPS", "LAST", "CONFIGURATION",
                    "CREATED"], table_text.run_rows(page["runs"]), right=["STEPS", "LAST"])
        _footer(page, "runs")

    def _metrics(self, steps: list[dict[str, Any]], more: list[str]) -> None:
        named = table_text.metric_columns(steps)
        columns = ["STEP", *(table_text.METRIC_TITLES.get(name, name) for name in [*named, *more])]
        self.table(columns, table_text.metric_rows(steps, [*named, *more]), right=columns)

    def _hparams(self, found: dict[str, Any]) -> None:
        self.facts([*sorted(found["values"].items()), ("sha", found["sha"])], title="Hyperparameters")

    def _engine_config(self, found: dict[str, Any]) -> None:
        self.table(["SETTING", "REQUESTED", "RUNS WITH"], table_text.engine_rows(found))
        self.facts([(name, json.dumps(value) if isinstance(value, dict) else value)
                    for name, value in found["resolved"].items()], title="Resolved")

    def _engine_runtime(self, found: dict[str, Any]) -> None:
        for heading, rows in runtime_text.sections(found):
            self.facts(rows, title=heading)
        if changed := runtime_text.changed_rows(found):
            print("\nChanged by setup")
            self.table(runtime_text.CHANGED_COLUMNS, changed)
        if memory := runtime_text.memory_rows(found):
            print("\nMemory")
            self.table(runtime_text.MEMORY_COLUMNS, memory, right=runtime_text.MEMORY_COLUMNS[2:])

    def _grafana(self, found: dict[str, Any]) -> None:
        print(plain(found["url"]))
        self.say("No token is in it, so it does not expire: Grafana asks who follows it." if found["isDashboard"] else
                 "No Grafana dashboard is set (web.grafana-dashboard); this is the run's own page.")

    def _snapshots(self, page: dict[str, Any]) -> None:
        self.table(table_text.SNAPSHOT_COLUMNS, table_text.snapshot_rows(page["snapshots"]),
                   right=["SAVED STEP", "SIZE"])
        _footer(page, "snapshots")

    def _verified(self, found: dict[str, Any]) -> None:
        self.table(verify_text.CHECK_COLUMNS, verify_text.check_rows(found["checks"]))
        for line in (verify_text.verdict(found), *verify_text.disagreements(found)):
            print(plain(line))

    def _smoke(self, found: dict[str, Any]) -> None:
        print(plain(f"Smoke check: {smoke_words(found['smoke'])}"))
        if found["missed"]:
            self.table(table_text.MISSED_COLUMNS, table_text.missed_rows(found["missed"]), right=["ROW"])
            _footer(found, "missed")


def with_changes(document: Any, changes: list[str]) -> Any:
    """A descriptor with `PATH=VALUE` laid over it. Raises InvalidInput."""
    for change in changes:
        path, equals, value = change.partition("=")
        if not equals or not isinstance(document, dict):
            raise InvalidInput(f"{change!r} is not of the form PATH=VALUE.", code="usage",
                               hint="For instance --set config.hyperparams.lora.rank=16.")
        *groups, name = path.split(".")
        node = document
        for group in groups:
            node = node.setdefault(group, {})
            if not isinstance(node, dict):
                raise InvalidInput(f"{path!r} leads through {group}, which is a value.", code="usage")
        node[name] = parse_document(value, name=f"The value of {path}")
    return document


def _refuse_flags(*, show_resolved: bool, exit_status: bool, wait: bool, file: bool) -> None:
    sentences = {"--show-resolved requires --dry-run.": show_resolved, "--exit-status requires --wait.": exit_status,
                 "--wait does not go with --dry-run.": wait, "Name a descriptor with -f FILE.": file}
    for sentence, is_wrong in sentences.items():
        if is_wrong:
            raise InvalidInput(sentence, code="usage", hint="`./optimize runs start --help` shows its use.")


def _names(text_: str) -> list[str]:
    return [name.strip() for name in text_.split(",") if name.strip()]


def _footer(page: dict[str, Any], noun: str) -> None:
    shown = len(page[noun])
    if shown:
        print(f"{page['offset'] + 1} to {page['offset'] + shown} of {page['total']} {noun}.")
    else:
        print(f"No {noun}.")
