"""Routes of branches: starting them, one or a whole grid, and what came of what."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from optimize_site.kernel.api import DEFAULT_LIMIT, Body, page
from optimize_site.kernel.auth import actor_of
from runs import lineage, operations, queries
from runs.models import Snapshot
from runs.operations.branching import AUTO, Planned, Wish
from runs.operations.check import problem_document
from runs.operations.sweeping import Point, Sweep

router = Router(tags=["branches"])


class BranchRequest(Body):
    """A branch: the snapshot it starts from, how it is restored, what it changes.

    Its budget is `steps` in updates, or a plan's horizon: `epochs`, and `maxSteps` as a plan has it.
    """

    snapshot: str
    steps: int | None = None
    epochs: int | None = None
    maxSteps: int | None = None
    restoreMode: str = AUTO
    overrides: dict[str, Any] = {}
    configName: str = ""
    description: str = ""
    submissionId: str = ""
    dryRun: bool = False


class ContinueRequest(Body):
    """A branch that goes on with a run's training, from its newest save with training state unless one is named."""

    steps: int
    snapshot: str = ""
    overrides: dict[str, Any] = {}
    configName: str = ""
    description: str = ""
    submissionId: str = ""
    dryRun: bool = False


class SweepRequest(Body):
    """A sweep: a branch for each point of a grid `{"axes": [{"path", "values"}]}`, its last axis fastest."""

    snapshot: str
    steps: int
    grid: dict[str, Any]
    restoreMode: str = AUTO
    description: str = ""
    submissionId: str = ""
    dryRun: bool = False


@router.post("/{run_id}/branch", response={200: dict[str, Any], 202: dict[str, Any]})
def branch_run(request: HttpRequest, run_id: str, payload: BranchRequest) -> Status[dict[str, Any]]:
    """Start a branch of a run. 200 for a dry run, and where the same submission had started it."""
    wish = Wish(_snapshot(run_id, payload.snapshot), payload.steps, payload.restoreMode, payload.overrides,
                payload.description, payload.configName, payload.submissionId, payload.epochs, payload.maxSteps)
    return _branched(request, wish, dry_run=payload.dryRun)


@router.post("/{run_id}/continue", response={200: dict[str, Any], 202: dict[str, Any]})
def continue_run(request: HttpRequest, run_id: str, payload: ContinueRequest) -> Status[dict[str, Any]]:
    """Go on with a run's training in a branch that keeps its training state. Answers as a branch does."""
    run = queries.get_run(run_id)
    snapshot = queries.get_snapshot(payload.snapshot, run=run) if payload.snapshot else None
    wish = operations.wish_to_continue(
        run, steps=payload.steps, snapshot=snapshot, overrides=payload.overrides, description=payload.description,
        config_name=payload.configName, submission_id=payload.submissionId)
    return _branched(request, wish, dry_run=payload.dryRun)


def _branched(request: HttpRequest, wish: Wish, *, dry_run: bool) -> Status[dict[str, Any]]:
    actor = actor_of(request)
    if dry_run:
        return Status(200, planned_document(operations.plan_branch(wish, actor=actor)))
    submission = operations.branch_run(wish, actor=actor)
    return Status(202 if submission.is_new else 200, lineage.branch_document(submission.run) | {
        "isNew": submission.is_new, "warnings": submission.run.warnings})


@router.get("/{run_id}/branches")
def list_branches(request: HttpRequest, run_id: str, submission: str = "", limit: int = DEFAULT_LIMIT,
                  offset: int = 0) -> dict[str, Any]:
    """The run's direct branches, newest first."""
    run = queries.get_run(run_id)
    found = page(lineage.branches_of(run, submission=submission), "branches", lineage.branch_document, limit=limit,
                 offset=offset)
    return found | {"runId": run.pk, "configHash": run.config_hash}


@router.get("/{run_id}/tree")
def run_tree(request: HttpRequest, run_id: str, depth: int = 0) -> dict[str, Any]:
    """The run with all its branches below it; `depth` 0 is all of them."""
    return lineage.tree_of(queries.get_run(run_id), depth=max(0, depth))


@router.get("/{run_id}/ancestry")
def run_ancestry(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """The runs that led to this one, the root first."""
    return {"runs": [lineage.branch_document(run) for run in lineage.ancestry_of(queries.get_run(run_id))]}


@router.post("/{run_id}/sweep", response={200: dict[str, Any], 202: dict[str, Any]})
def sweep_runs(request: HttpRequest, run_id: str, payload: SweepRequest) -> Status[dict[str, Any]]:
    """Start a branch for each point of a grid; all are checked before any is started."""
    sweep = operations.sweep_runs(
        _snapshot(run_id, payload.snapshot), steps=payload.steps, grid=payload.grid, restore=payload.restoreMode,
        description=payload.description, submission_id=payload.submissionId, dry_run=payload.dryRun,
        actor=actor_of(request))
    return Status(200 if payload.dryRun else 202, sweep_document(sweep))


def planned_document(planned: Planned) -> dict[str, Any]:
    """The answer to a branch's dry run."""
    resolved = planned.resolved
    return {"valid": not planned.problems, "problems": [problem_document(problem) for problem in planned.problems],
            "warnings": list(resolved.warnings), "restoreMode": planned.mode, "restoreReason": planned.reason,
            "configHash": resolved.config_hash if not planned.problems else None, "budgetSteps": resolved.total_steps,
            "snapshotId": planned.wish.snapshot.pk, "sourceStep": planned.wish.snapshot.step,
            "resolved": {"config": resolved.config, "execution": resolved.execution},
            "overrides": list(resolved.stated)}


def sweep_document(sweep: Sweep) -> dict[str, Any]:
    """A sweep's points in the order of its grid."""
    return {"submissionId": sweep.submission_id, "points": [_point(point) for point in sweep.points]}


def _point(point: Point) -> dict[str, Any]:
    mode = point.planned.mode if point.planned else point.run.restore_mode if point.run else None
    reason = point.planned.reason if point.planned else point.run.restore_reason if point.run else None
    return {"values": point.values, "childRunId": point.run.pk if point.run else point.wish.child_id,
            "phase": point.run.phase if point.run else None, "isNew": point.is_new, "restoreMode": mode,
            "restoreReason": reason}


def _snapshot(run_id: str, text: str) -> Snapshot:
    """A snapshot of this run, by its ID or the beginning of it. Raises NotFound."""
    return queries.get_snapshot(text, run=queries.get_run(run_id))
