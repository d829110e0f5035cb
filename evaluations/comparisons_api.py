"""Routes of comparisons."""

from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Status

from evaluations.comparison_queries import get_comparison, list_comparisons
from evaluations.comparison_render import comparison_document, comparison_row
from evaluations.operations import comparisons as operations
from optimize_site.kernel.api import DEFAULT_LIMIT, Body, page
from optimize_site.kernel.auth import actor_of

router = Router(tags=["comparisons"])


class NewComparison(Body):
    """A source snapshot and what it is compared with: models or runs by ID, or every completed branch of its run."""

    source: str
    candidates: list[str] = []
    branches: list[str] = []
    allBranches: str = ""
    dataset: str = ""
    grader: str = ""
    maxCompletionTokens: int = Field(0, ge=0, le=4096)
    submissionId: str = Field("", max_length=128)
    dryRun: bool = False

    def wish(self) -> operations.Wish:
        return operations.Wish(self.source, tuple(self.candidates), tuple(self.branches), self.allBranches,
                               self.dataset, self.grader, self.maxCompletionTokens, self.submissionId)


@router.post("", response={201: dict[str, Any], 200: dict[str, Any]})
def create_comparison(request: HttpRequest, body: NewComparison) -> Status[dict[str, Any]]:
    """Compare a snapshot with what was branched from it. The same `submissionId` reaches the first one: 200.

    A dry run checks the source, the rows and the grader, whatever there is to compare with yet, and answers 200.
    """
    if body.dryRun:
        operations.check_comparison(body.wish(), actor=actor_of(request))
        return Status(200, {"valid": True})
    found = operations.create_comparison(body.wish(), actor=actor_of(request))
    return Status(201 if found.is_new else 200, comparison_document(found.comparison))


@router.get("")
def comparisons(request: HttpRequest, workload: str = "", project: str = "", archived: bool = False,
                limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """Comparisons, newest first; those of archived workloads with `archived`, or where such a workload is named."""
    rows = list_comparisons(workload=workload or project, archived=archived)
    return page(rows, "comparisons", comparison_row, limit=limit, offset=offset)


@router.get("/{comparison}")
def comparison(request: HttpRequest, comparison: str) -> dict[str, Any]:
    """The contract, each target's status and score, what differs, what it cost."""
    return comparison_document(get_comparison(comparison))
