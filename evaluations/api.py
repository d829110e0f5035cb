"""Routes of evaluations."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Field, Router, Status

from evaluations import queries
from evaluations.errors import ReportNotReady
from evaluations.operations import evaluations as operations
from evaluations.phases import ENDS
from evaluations.render import evaluation_document, evaluation_row, prediction_document, report_document
from optimize_site.kernel.api import DEFAULT_LIMIT, Body, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import InvalidInput
from optimize_site.kernel.stream import Subject, respond
from registry.model_queries import get_model
from registry.schemas import Note
from registry.workload_queries import get_workload

router = Router(tags=["evaluations"])


class NewEvaluation(Body):
    """What is left out comes from the model's workload; `project` is another word for it."""

    model: str
    dataset: str = ""
    grader: str = ""
    workload: str = ""
    project: str = ""
    maxCompletionTokens: int = 0
    description: str = ""
    submissionId: str = Field("", max_length=128)
    graderInstructions: str = ""

    def request(self) -> operations.Request:
        if self.workload and self.project and self.workload != self.project:
            raise InvalidInput(f"workload is {self.workload} and project is {self.project}; they are one thing.",
                               hint="Leave one out.", code="workload_stated_twice")
        return operations.Request(self.model, self.dataset, self.grader, self.workload or self.project,
                                  self.maxCompletionTokens, self.description, self.submissionId,
                                  self.graderInstructions)


@router.post("", response={201: dict[str, Any], 200: dict[str, Any]})
def start_evaluation(request: HttpRequest, body: NewEvaluation) -> Status[dict[str, Any]]:
    """Score a model over a dataset. The same `submissionId` reaches the evaluation it first started: 200, not 201."""
    found = operations.start_evaluation(body.request(), actor=actor_of(request))
    return Status(201 if found.is_new else 200, evaluation_document(found.evaluation))


@router.get("")
def list_evaluations(request: HttpRequest, model: str = "", phase: str = "", workload: str = "", project: str = "",
                     archived: bool = False, limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """Evaluations, newest first; filters combine, and `phase=open` is all that are unfinished.

    Those of archived workloads are there with `archived`, or where such a workload is named.
    """
    named = workload or project
    rows = queries.list_evaluations(model=get_model(model) if model else None, phase=phase,
                                    workload=get_workload(named) if named else None, archived=archived)
    return page(rows, "evaluations", evaluation_row, limit=limit, offset=offset)


@router.get("/{evaluation}")
def get_evaluation(request: HttpRequest, evaluation: str) -> dict[str, Any]:
    """Configuration, status and summary."""
    return evaluation_document(queries.get_evaluation(evaluation))


@router.get("/{evaluation}/report")
def get_report(request: HttpRequest, evaluation: str) -> dict[str, Any]:
    """Mean score, exact-match rate, accuracy per field lowest first, what was unscored and why."""
    row = queries.get_evaluation(evaluation)
    if not row.report:
        raise ReportNotReady(f"The evaluation {row.pk[:12]} is {row.phase}; it has no report yet.",
                             hint="Its answers so far are under `predictions`.")
    return report_document(row)


@router.get("/{evaluation}/predictions")
def get_predictions(request: HttpRequest, evaluation: str, limit: int = DEFAULT_LIMIT, offset: int = 0,
                    wrongFirst: bool = False) -> dict[str, Any]:
    """The answers that there are, while it runs too, in the dataset's order or the wrong ones first."""
    rows = queries.list_predictions(queries.get_evaluation(evaluation), wrong_first=wrongFirst)
    return page(rows, "predictions", prediction_document, limit=limit, offset=offset)


@router.get("/{evaluation}/events")
def follow_evaluation(request: HttpRequest, evaluation: str, follow: bool = True, after: int = 0) -> HttpResponseBase:
    """The current status first, then its changes as server-sent events, until it is over."""
    pk = queries.get_evaluation(evaluation).pk
    subject = Subject("evaluation", pk, lambda: evaluation_document(queries.get_evaluation(pk)),
                      lambda status: status["phase"] in ENDS)
    return respond(request, subject, follow=follow, after=after)


@router.post("/{evaluation}/cancel", response={202: dict[str, Any]})
def cancel_evaluation(request: HttpRequest, evaluation: str) -> Status[dict[str, Any]]:
    """Stop it; what was answered stays."""
    row = operations.cancel_evaluation(queries.get_evaluation(evaluation), actor=actor_of(request))
    return Status(202, evaluation_document(row))


@router.post("/{evaluation}/retry", response={202: dict[str, Any]})
def retry_evaluation(request: HttpRequest, evaluation: str) -> Status[dict[str, Any]]:
    """Answer what is missing."""
    row = operations.retry_evaluation(queries.get_evaluation(evaluation), actor=actor_of(request))
    return Status(202, evaluation_document(row))


@router.post("/{evaluation}/annotate")
def annotate_evaluation(request: HttpRequest, evaluation: str, body: Note) -> dict[str, Any]:
    """Set or clear the note."""
    row = operations.annotate_evaluation(queries.get_evaluation(evaluation), description=body.description,
                                         actor=actor_of(request))
    return evaluation_document(row)
