"""`evaluations`: score a model over a dataset, follow it, read its report and its answers."""

from typing import Any
from urllib.parse import quote

from evaluations.agreement_queries import agreement_of
from evaluations.agreement_text import agreement_lines, agreement_table
from evaluations.operations.marks import read_mark
from evaluations.render import evaluation_document
from optimize_site.kernel.commands import EXIT_CANCELLED, EXIT_DONE, EXIT_WORK_FAILED, NounCommand, arg, verb
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.ids import SHOWN
from registry.commands.shown import marked

ROUTE = "/v1/training/evaluations"
OVER = {"COMPLETED": EXIT_DONE, "FAILED": EXIT_WORK_FAILED, "CANCELLED": EXIT_CANCELLED}
EVALUATION = arg("evaluation", metavar="EVALUATION", help="ID, or the beginning of one")
WORKLOAD = arg("--workload", "--project", default="", dest="workload", metavar="WORKLOAD")
INSTRUCTIONS = arg("--grader-instructions", default="", metavar="TEXT",
                   help="what a grader that is a model is told; else what it inherits")
EXIT_STATUS = arg("--exit-status", action="store_true", help="5 where it failed, 6 where it was cancelled")
PAGE = 100
JUDGED_AFTERWARDS = ("AWAITING_GRADER", "SCORING")


class Command(NounCommand):
    """Starts and shows evaluations."""

    noun = "evaluations"
    help = "Evaluations: one model's answers to one dataset, scored by one grader."

    @verb("start", arg("--model", required=True, metavar="MODEL"), arg("--dataset", default="", metavar="DATASET"),
          arg("--grader", default=""), INSTRUCTIONS, WORKLOAD,
          arg("--max-completion-tokens", type=int, default=0, metavar="N"), arg("--description", default=""),
          arg("--submission-id", default=""), arg("--wait", action="store_true", help="until it is over"), EXIT_STATUS,
          gives=(evaluation_document,))
    def start(self, wait: bool, exit_status: bool, **values: Any) -> int:
        """Start an evaluation; dataset and grader are the workload's unless given."""
        if exit_status and not wait:
            raise InvalidInput("--exit-status requires --wait.", code="usage")
        body = {"model": values["model"], "dataset": values["dataset"], "grader": values["grader"],
                "graderInstructions": values["grader_instructions"], "workload": values["workload"],
                "maxCompletionTokens": values["max_completion_tokens"],
                "description": values["description"], "submissionId": values["submission_id"]}
        started = self.client.post(ROUTE, body)
        if wait:
            return self._wait(started["evaluationId"], exit_status)
        self.show_made(started, "evaluationId", text=self._record)
        return EXIT_DONE

    @verb("get", EVALUATION, arg("--follow", action="store_true"), EXIT_STATUS)
    def get(self, evaluation: str, follow: bool, exit_status: bool) -> int:
        """Show an evaluation's configuration, status and summary."""
        if exit_status and not follow:
            raise InvalidInput("--exit-status requires --follow.", code="usage")
        if follow:
            return self._wait(evaluation, exit_status)
        self.show(self.client.get(address(evaluation)), text=self._record)
        return EXIT_DONE

    @verb("wait", EVALUATION, EXIT_STATUS)
    def wait(self, evaluation: str, exit_status: bool) -> int:
        """Follow an evaluation to its end."""
        return self._wait(evaluation, exit_status)

    @verb("list", arg("--model", default="", metavar="MODEL"), WORKLOAD,
          arg("--phase", default="", help="a phase, or `open` for the unfinished"),
          arg("--archived", action="store_true", help="those of archived workloads too"))
    def list_evaluations(self, model: str, workload: str, phase: str, archived: bool) -> None:
        """Show evaluations, newest first."""
        found = self.client.get(ROUTE, model=model, workload=workload, phase=phase, archived=archived, limit=PAGE)
        self.show(found, text=self._table)

    @verb("report", EVALUATION)
    def report(self, evaluation: str) -> None:
        """Show the score with its interval, the fields lowest first, what was not scored and why."""
        self.show(self.client.get(f"{address(evaluation)}/report"), text=self._report)

    @verb("predictions", EVALUATION, arg("--limit", type=int, default=0, help="all of them unless given"),
          arg("--wrong-first", action="store_true"))
    def predictions(self, evaluation: str, limit: int, wrong_first: bool) -> None:
        """Show the answers, while it runs too."""
        self.show(self._predictions(evaluation, limit, wrong_first), text=self._answers)

    @verb("cancel", EVALUATION, gives=(evaluation_document,))
    def cancel(self, evaluation: str) -> None:
        """Stop an evaluation; its answers so far stay."""
        self.confirm(f"Cancel the evaluation {evaluation}?", needs_force=True)
        self.show(self.client.post(f"{address(evaluation)}/cancel"), text=self._record)

    @verb("retry", EVALUATION, gives=(evaluation_document,))
    def retry(self, evaluation: str) -> None:
        """Answer the rows that are missing or that another commit of the base model answered, and ask a grader that is
        no rule again where it gave no score."""
        self.show(self.client.post(f"{address(evaluation)}/retry"), text=self._record)

    @verb("annotate", EVALUATION, arg("--description", default=None, help="an empty text clears it"),
          gives=(evaluation_document,))
    def annotate(self, evaluation: str, description: str | None) -> None:
        """Set or clear the note."""
        self.show(self.client.post(f"{address(evaluation)}/annotate", {"description": description}), text=self._record)

    @verb("mark", EVALUATION, arg("row", type=int, metavar="ROW", help="as `predictions` counts them"),
          arg("mark", metavar="MARK", help="right, wrong, a score from 0 to 1, or clear"),
          gives=(agreement_of,))
    def mark(self, evaluation: str, row: int, mark: str) -> None:
        """Say what you think of the answer to a row, to see how far the grader agrees."""
        score = read_mark(mark)
        said = {"verdict": "clear"} if score is None else {"score": score}
        self.show(self.client.post(f"{address(evaluation)}/marks", {"marks": [{"position": row} | said]}),
                  text=self._agreement)

    @verb("agreement", EVALUATION)
    def agreement(self, evaluation: str) -> None:
        """Show how far the grader agrees with what people marked, and other graders of the same rows."""
        self.show(self.client.get(f"{address(evaluation)}/agreement"), text=self._agreement)

    def _agreement(self, found: dict[str, Any]) -> None:
        self.facts([("Grader", found["grader"]), ("Instructions", found["graderInstructions"]),
                    ("Marked", found["marked"]), *agreement_lines(found)], title="Agreement with people")
        if found["others"]:
            print()
            agreement_table(self, found["others"])

    def _wait(self, evaluation: str, exit_status: bool) -> int:
        found, _ = self.watch(address(evaluation), timeout=None, each=self._say_progress,
                              is_over=lambda document: document["phase"] in OVER)
        self.show(found, text=self._record)
        return OVER[found["phase"]] if exit_status else EXIT_DONE

    def _say_progress(self, document: dict[str, Any]) -> None:
        if document["phase"] not in OVER:
            self.say(f"{document['phase']}{_counted(document)}")

    def _predictions(self, evaluation: str, limit: int, wrong_first: bool) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            size = min(PAGE, limit - len(found)) if limit else PAGE
            page = self.client.get(f"{address(evaluation)}/predictions", limit=size, offset=len(found),
                                   wrongFirst=wrong_first)
            found += page["predictions"]
            if not page["predictions"] or len(found) >= (limit or page["total"]):
                return found

    def _table(self, document: dict[str, Any]) -> None:
        self.table(["ID", "PHASE", "MODEL", "WORKLOAD", "DATASET", "SCORE", "ROWS", "UNSCORED", "CREATED"],
                   [[row["evaluationId"][:SHOWN], row["phase"], row["model"], marked(row["workload"], row),
                     row["dataset"], _score(row), f"{row['answered']}/{row['rows']}", row["unscored"],
                     row["createdAt"][:16]]
                    for row in document["evaluations"]], right=["SCORE", "ROWS", "UNSCORED"])

    def _record(self, found: dict[str, Any]) -> None:
        report = found["report"] or {}
        self.facts([
            ("Evaluation", found["evaluationId"]), ("Phase", found["phase"]), ("Model", found["model"]),
            ("Base model", f"{found['baseModel']} at {(found['baseModelRevision'] or 'no commit yet')[:SHOWN]}"),
            ("Workload", marked(found["workload"], found)), ("Dataset", found["dataset"]), ("Grader", found["grader"]),
            ("Instructions", _told(found)), ("Answered", f"{found['answered']} of {found['rows']}"),
            ("Mean score", _score(found, report)),
            ("Exact match", _share(report.get("exactMatchRate"))), ("Unscored", _unscored(found)),
            ("Description", found["description"] or None), ("Waits", found["waitReason"]),
            ("Failed", found["failureReason"]), ("To do", found["failureHint"])], title="Evaluation")

    def _report(self, report: dict[str, Any]) -> None:
        self.facts([("Mean score", _score(report, report)), ("Exact match", _share(report["exactMatchRate"])),
                    ("Scored", f"{report['scored']} of {report['rows']}"),
                    *((f"Unscored: {cause}", count) for cause, count in report["unscored"]["causes"].items())],
                   title="Report")
        print()
        self.table(["FIELD", "ACCURACY", "MATCHED"],
                   [[entry["field"], _share(entry["accuracy"]), f"{entry['matched']} of {entry['rows']}"]
                    for entry in report["fields"]], right=["ACCURACY", "MATCHED"])

    def _answers(self, rows: list[dict[str, Any]]) -> None:
        self.table(["ROW", "SCORE", "EXPECTED", "ANSWER", "WHY"],
                   [[row["position"], _verdict(row), _line(row["expected"]),
                     _line(row["answer"]), row["explanation"]] for row in rows], right=["ROW", "SCORE"])


def _counted(document: dict[str, Any]) -> str:
    """How far it is: the rows answered, then, of a grader that is asked afterwards, those judged."""
    if not document["answered"]:
        return ""
    done, word = document["answered"], ""
    if document["phase"] in JUDGED_AFTERWARDS:
        done, word = document["scored"] + document["unscored"], " judged"
    return f" {done} of {document['rows']} rows{word}"


def _unscored(document: dict[str, Any]) -> str | None:
    """How many rows have no score, and why."""
    causes = ", ".join(f"{cause} {count}" for cause, count in document["unscoredCauses"].items())
    return f"{document['unscored']}{f' ({causes})' if causes else ''}" if document["unscored"] else None


def address(evaluation: str) -> str:
    """The route of an evaluation."""
    return f"{ROUTE}/{quote(evaluation, safe='')}"


def _told(found: dict[str, Any]) -> str | None:
    """What the judge is told, and where that comes from."""
    told = found["graderInstructions"]
    return f"{_line(told, 100)} ({found['instructionsSource']})" if told else None


def _score(document: dict[str, Any], report: dict[str, Any] | None = None) -> str | None:
    if document.get("meanScore") is None:
        return None
    interval = (report or {}).get("interval")
    return f"{document['meanScore']:.4f}" + (f" [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else "")


def _verdict(row: dict[str, Any]) -> str:
    missing = "unscored" if row["unscoredCause"] else "not judged yet"
    return _score({"meanScore": row["score"]}) or missing


def _share(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"


def _line(text: str, width: int = 60) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[:width - 1] + "…"
