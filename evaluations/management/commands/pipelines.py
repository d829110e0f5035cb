"""`pipelines`: train and evaluate in order, from one file; follow them, take them up again."""

from typing import Any
from urllib.parse import quote

from evaluations.errors import PipelineRefused
from evaluations.pipeline_render import pipeline_document
from optimize_site.kernel.commands import (
    EXIT_CANCELLED,
    EXIT_DONE,
    EXIT_REFUSED,
    EXIT_TIMED_OUT,
    EXIT_WORK_FAILED,
    NounCommand,
    arg,
    duration,
    read_document,
    verb,
)
from optimize_site.kernel.errors import InvalidInput, Problem
from optimize_site.kernel.ids import SHOWN
from registry.commands.shown import marked

ROUTE = "/v1/training/pipelines"
OVER = {"COMPLETED": EXIT_DONE, "FAILED": EXIT_WORK_FAILED, "CANCELLED": EXIT_CANCELLED}
EXIT_CHECK_FAILED = 8
PIPELINE = arg("pipeline", metavar="PIPELINE", help="ID, or the beginning of one")
EXIT_STATUS = arg("--exit-status", action="store_true",
                  help="5 where it failed, 6 where it was cancelled, 8 where a score stayed below its gate")


class Command(NounCommand):
    """Starts and shows pipelines."""

    noun = "pipelines"
    help = "Pipelines: train and evaluate stages in order, in one submission."

    @verb("start", arg("-f", "--file", required=True, metavar="FILE", help="JSON or YAML; - is standard input"),
          arg("--dry-run", action="store_true", help="check it, start nothing"),
          arg("--show-resolved", action="store_true", help="with --dry-run: every setting with its value"),
          arg("--wait", action="store_true", help="until it is over"), EXIT_STATUS, gives=(pipeline_document,))
    def start(self, file: str, dry_run: bool, show_resolved: bool, wait: bool, exit_status: bool) -> int:
        """Start a pipeline from a descriptor."""
        if show_resolved and not dry_run:
            raise InvalidInput("--show-resolved requires --dry-run.", code="usage")
        if exit_status and not wait:
            raise InvalidInput("--exit-status requires --wait.", code="usage")
        document = read_document(file)
        if dry_run:
            return self._dry_run(document, show_resolved)
        self.confirm("Start this pipeline?", needs_force=False)
        started = self.client.post(ROUTE, document)
        if wait:
            return self._wait(started["pipelineId"], None, exit_status)
        self.show_made(started, "pipelineId", text=self._record)
        return EXIT_DONE

    @verb("get", PIPELINE)
    def get(self, pipeline: str) -> None:
        """Show where a pipeline stands, stage by stage."""
        self.show(self.client.get(address(pipeline)), text=self._record)

    @verb("list", arg("--phase", default="", help="a phase, or `open` for the unfinished"),
          arg("--workload", "--project", default="", dest="workload", metavar="WORKLOAD"),
          arg("--archived", action="store_true", help="those of archived workloads too"),
          arg("--limit", type=int, default=50), arg("--offset", type=int, default=0))
    def list_pipelines(self, **filters: Any) -> None:
        """Show pipelines, newest first."""
        self.show(self.client.get(ROUTE, **filters), text=self._table)

    @verb("wait", PIPELINE, arg("--timeout", type=duration, default=None, help="then exit with 7; it carries on"),
          EXIT_STATUS)
    def wait(self, pipeline: str, timeout: float | None, exit_status: bool) -> int:
        """Follow a pipeline to its end."""
        return self._wait(pipeline, timeout, exit_status)

    @verb("cancel", PIPELINE, gives=(pipeline_document,))
    def cancel(self, pipeline: str) -> None:
        """Cancel the stage in progress; those behind it do not run."""
        self.confirm(f"Cancel the pipeline {pipeline}?", needs_force=True)
        self.show(self.client.post(f"{address(pipeline)}/cancel"), text=self._record)

    @verb("resume", PIPELINE, gives=(pipeline_document,))
    def resume(self, pipeline: str) -> None:
        """Take a pipeline up again at the stage that did not complete."""
        self.show(self.client.post(f"{address(pipeline)}/resume"), text=self._record)

    @verb("annotate", PIPELINE, arg("--description", default=None, help="an empty text clears it"),
          gives=(pipeline_document,))
    def annotate(self, pipeline: str, description: str | None) -> None:
        """Set or clear the note."""
        self.show(self.client.post(f"{address(pipeline)}/annotate", {"description": description}), text=self._record)

    def _dry_run(self, document: Any, resolved: bool) -> int:
        found = self.client.post(f"{ROUTE}/dry-run", document, resolved=resolved)
        self.show(found, text=lambda checked: self._checked(checked, resolved))
        if found["valid"]:
            return EXIT_DONE
        if self.is_text:
            raise PipelineRefused.because([Problem(**problem) for problem in found["problems"]])
        return EXIT_REFUSED

    def _checked(self, found: dict[str, Any], resolved: bool) -> None:
        self.table(["STAGE", "TYPE", "NEEDS", "RESOLVED TO"],
                   [[stage["name"], stage["type"], ", ".join(stage["needs"]), resolved_to(stage)]
                    for stage in found["stages"]])
        for stage in found["stages"] if resolved else []:
            if stage.get("resolved") and stage["configHash"]:
                self.facts(list(settings_of(stage["resolved"])), title=stage["name"])

    def _wait(self, pipeline: str, timeout: float | None, exit_status: bool) -> int:
        found, is_late = self.watch(address(pipeline), timeout=timeout, each=self._say_progress,
                                    is_over=lambda document: document["phase"] in OVER)
        self.show(found, text=self._record)
        if is_late:
            return EXIT_TIMED_OUT
        if not exit_status:
            return EXIT_DONE
        return EXIT_CHECK_FAILED if found["failureCode"] == "gate_not_met" else OVER[found["phase"]]

    def _say_progress(self, document: dict[str, Any]) -> None:
        if document["phase"] not in OVER:
            now = document["stage"] or "starting"
            self.tell_update(document, f"{document['stagesDone']} of {document['stagesTotal']} stages, now {now}")

    def _table(self, found: dict[str, Any]) -> None:
        self.table(["ID", "WORKLOAD", "PHASE", "STAGES", "NOW", "DESCRIPTION", "CREATED"],
                   [[row["pipelineId"][:SHOWN], marked(row["workload"], row), row["phase"],
                     f"{row['stagesDone']}/{row['stagesTotal']}", row["stage"], row["description"],
                     row["createdAt"][:16]] for row in found["pipelines"]], right=["STAGES"])

    def _record(self, found: dict[str, Any]) -> None:
        self.facts([("Pipeline", found["pipelineId"]), ("Workload", marked(found["workload"], found)),
                    ("Phase", found["phase"]), ("Description", found["description"] or None),
                    ("Device seconds", found["cost"]["deviceSeconds"]), ("Failure", found["failureReason"])],
                   title="Pipeline")
        print()
        self.table(["STAGE", "TYPE", "STATE", "WORK", "MODEL", "SCORE", "GATE", "DEVICE SECONDS", "WHY"],
                   [[stage["name"], stage["type"], stage["state"], (stage["runId"] or stage["evaluationId"] or "")[:12],
                     stage["model"], _number(stage["meanScore"]), _number(stage["minMeanScore"]),
                     stage["deviceSeconds"], stage["reason"]] for stage in found["stages"]],
                   right=["SCORE", "GATE", "DEVICE SECONDS"])


def address(pipeline: str) -> str:
    """The route of a pipeline."""
    return f"{ROUTE}/{quote(pipeline, safe='')}"


def resolved_to(stage: dict[str, Any]) -> str:
    """What a stage of a dry run resolved to, in a few words."""
    if stage["type"] == "train":
        dataset = (stage["references"].get("dataset") or {}).get("reference")
        return f"{dataset or 'no dataset'}, configuration {(stage['configHash'] or 'refused')[:12]}"
    gate = f", gate {stage['minMeanScore']}" if stage["minMeanScore"] is not None else ""
    return f"{stage['model']} on {stage['dataset'] or 'the workload' + chr(39) + 's dataset'}{gate}"


def settings_of(resolved: dict[str, Any], path: str = "") -> Any:
    """Every setting of a resolved stage with its value."""
    for key, value in resolved.items():
        if isinstance(value, dict):
            yield from settings_of(value, f"{path}{key}.")
        elif key not in {"lengths"}:
            yield f"{path}{key}", "none" if value is None else value


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"
