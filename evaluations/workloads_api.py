"""What evaluations add to a workload's routes: scores, flipped rows, promotion."""

from typing import Any

from django.http import HttpRequest
from ninja import Router

from evaluations.comparison import compare_models
from evaluations.operations.promotion import promote
from evaluations.scores import scores_table
from optimize_site.kernel.api import Body
from optimize_site.kernel.auth import actor_of
from registry.model_queries import get_model
from registry.queries import resolve_version
from registry.workload_queries import get_workload
from registry.workload_render import reference_document


class Promotion(Body):
    model: str
    note: str = ""
    force: bool = False


def make_router(word: str = "projects") -> Router:
    """A router to be mounted once a word."""
    router = Router(tags=[word])

    @router.get("/{workload}/scores", operation_id=f"scores_{word}")
    def get_scores(request: HttpRequest, workload: str, dataset: str = "", grader: str = "",
                   graderInstructions: str = "") -> dict[str, Any]:
        """Scores by base model revision and configuration, on the workload's dataset and grader or on others."""
        found = get_workload(workload)
        version = resolve_version("dataset", dataset, namespace=found.namespace_id) if dataset else None
        return scores_table(found, dataset=version, grader=grader, instructions=graderInstructions)

    @router.get("/{workload}/flips", operation_id=f"flips_{word}")
    def get_flips(request: HttpRequest, workload: str, a: str, b: str) -> dict[str, Any]:
        """Two models on the same rows: the paired difference and the rows that flipped, with both answers."""
        found = get_workload(workload)
        return compare_models(found, get_model(a, found.namespace_id), get_model(b, found.namespace_id))

    @router.post("/{workload}/promote", operation_id=f"promote_{word}")
    def promote_model(request: HttpRequest, workload: str, body: Promotion) -> dict[str, Any]:
        """Make a model the champion, on the evidence of its evaluation."""
        found = get_workload(workload)
        reference = promote(found, get_model(body.model, found.namespace_id), note=body.note, force=body.force,
                            actor=actor_of(request))
        return reference_document(reference)

    return router


router = make_router("workloads")
