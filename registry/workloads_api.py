"""Routes of workloads; `projects` is another word for them."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from optimize_site.kernel.api import DEFAULT_LIMIT, Body, page
from optimize_site.kernel.auth import actor_of
from registry import workload_queries as queries
from registry.errors import UnsetReference
from registry.operations import workloads as operations
from registry.schemas import Note
from registry.workload_render import history_row, reference_document, workload_document, workload_row


class NewWorkload(Body):
    name: str
    dataset: str = ""
    grader: str = ""
    graderInstructions: str = ""
    description: str = ""


class NewName(Body):
    name: str


class EvaluationSettings(Body):
    dataset: str
    grader: str = ""
    graderInstructions: str = ""


class Target(Body):
    model: str
    note: str = ""
    force: bool = False


def make_router(word: str = "projects") -> Router:
    """A router with every workload route, to be mounted once a word; a list is under that word."""
    router = Router(tags=[word])

    @router.get("", operation_id=f"list_{word}")
    def list_workloads(request: HttpRequest, archived: bool = False, limit: int = DEFAULT_LIMIT,
                       offset: int = 0) -> dict[str, Any]:
        """Workloads, newest first; with `archived`, those too."""
        return page(queries.list_workloads(archived=archived), word, workload_row, limit=limit, offset=offset)

    @router.post("", response={201: dict[str, Any]}, operation_id=f"create_{word}")
    def create_workload(request: HttpRequest, body: NewWorkload) -> Status[dict[str, Any]]:
        """Make a workload and its namespace."""
        made = operations.create_workload(body.name, dataset=body.dataset, grader=body.grader,
                                          instructions=body.graderInstructions, description=body.description,
                                          actor=actor_of(request))
        return Status(201, workload_document(made))

    @router.get("/{workload}", operation_id=f"get_{word}")
    def get_workload(request: HttpRequest, workload: str) -> dict[str, Any]:
        """One workload, with its references."""
        return workload_document(queries.get_workload(workload))

    @router.post("/{workload}/rename", operation_id=f"rename_{word}")
    def rename_workload(request: HttpRequest, workload: str, body: NewName) -> dict[str, Any]:
        """Change the label."""
        found = queries.get_workload(workload)
        return workload_document(operations.rename_workload(found, body.name, actor=actor_of(request)))

    @router.post("/{workload}/annotate", operation_id=f"annotate_{word}")
    def annotate_workload(request: HttpRequest, workload: str, body: Note) -> dict[str, Any]:
        """Set or clear the note."""
        found = queries.get_workload(workload)
        return workload_document(operations.annotate_workload(found, description=body.description,
                                                              actor=actor_of(request)))

    @router.post("/{workload}/set-evaluation", operation_id=f"set_evaluation_{word}")
    def set_evaluation(request: HttpRequest, workload: str, body: EvaluationSettings) -> dict[str, Any]:
        """Set the dataset and grader that judge the workload's models, and what a grader that is a model is told."""
        found = queries.get_workload(workload)
        return workload_document(operations.set_evaluation(
            found, dataset=body.dataset, grader=body.grader, instructions=body.graderInstructions,
            actor=actor_of(request)))

    @router.post("/{workload}/archive", operation_id=f"archive_{word}")
    def archive_workload(request: HttpRequest, workload: str) -> dict[str, Any]:
        """Take a finished workload out of the lists; it takes no new work then."""
        found = queries.get_workload(workload)
        return workload_document(operations.archive_workload(found, actor=actor_of(request)))

    @router.post("/{workload}/unarchive", operation_id=f"unarchive_{word}")
    def unarchive_workload(request: HttpRequest, workload: str) -> dict[str, Any]:
        """Bring an archived workload back."""
        found = queries.get_workload(workload)
        return workload_document(operations.unarchive_workload(found, actor=actor_of(request)))

    @router.get("/{workload}/refs/{name}", operation_id=f"get_reference_{word}")
    def get_reference(request: HttpRequest, workload: str, name: str) -> dict[str, Any]:
        """Where a reference points."""
        found = queries.references_of(queries.get_workload(workload)).get(name)
        if found is None:
            raise UnsetReference(f"The workload {workload} has no {name} yet.",
                                 hint=f"`workloads refs set {workload} {name} MODEL` sets it.")
        return reference_document(found)

    @router.post("/{workload}/refs/{name}", operation_id=f"set_reference_{word}")
    def set_reference(request: HttpRequest, workload: str, name: str, body: Target) -> dict[str, Any]:
        """Point a reference at a model; `champion` is a promotion."""
        found = queries.get_workload(workload)
        return reference_document(operations.set_reference(found, name, body.model, note=body.note, force=body.force,
                                                           actor=actor_of(request)))

    @router.get("/{workload}/history", operation_id=f"history_{word}")
    def history(request: HttpRequest, workload: str, limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
        """What was changed, oldest first."""
        changes = queries.history_of(queries.get_workload(workload))
        return page(changes, "history", history_row, limit=limit, offset=offset)

    return router


router = make_router("workloads")
