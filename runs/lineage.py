"""Where a run comes from and what came of it: its chain of parents, its branches, the tree below it."""

from typing import Any

from django.db.models import QuerySet

from runs import queries
from runs.compared_figures import last_figure
from runs.models import Run

DEEPEST = 100


def branches_of(parent: Run, *, submission: str = "") -> QuerySet[Run]:
    """The direct branches of a run, newest first; of one submission where it is named."""
    children = queries.all_runs().filter(parent=parent).select_related("source_snapshot").order_by("-created_at", "pk")
    return children.filter(submission_id=submission) if submission else children


def ancestry_of(run: Run) -> list[Run]:
    """The runs that led to this one, the root first and the run itself last."""
    chain = [run]
    while chain[0].parent_id and len(chain) < DEEPEST:
        parent = queries.all_runs().select_related("source_snapshot").get(pk=chain[0].parent_id)
        chain.insert(0, parent)
    return chain


def tree_of(root: Run, *, depth: int = 0) -> dict[str, Any]:
    """A run with all its branches below it, nested; `depth` 0 is all of them. One query a level."""
    top = node_document(root)
    level, below = {root.pk: top}, 1
    while level and below <= (depth or DEEPEST):
        children = queries.all_runs().filter(parent__in=level).select_related("source_snapshot").order_by("created_at")
        found = {}
        for child in children:
            found[child.pk] = node_document(child)
            level[str(child.parent_id)]["branches"].append(found[child.pk])
        level, below = found, below + 1
    return top


def node_document(run: Run) -> dict[str, Any]:
    """A run as a node of a tree."""
    return branch_document(run) | {"branches": []}


def branch_document(run: Run) -> dict[str, Any]:
    """A branch in a list: where it starts, for how long, how it was restored."""
    source = run.source_snapshot
    return {"runId": run.pk, "childRunId": run.pk, "parentRunId": run.parent_id, "phase": run.phase,
            "configHash": run.config_hash, "configName": run.config_name, "description": run.description,
            "sourceSnapshotId": source.pk if source else None, "sourceStep": source.step if source else None,
            "budgetSteps": run.total_steps, "observedStep": run.observed_step,
            "restoreMode": run.restore_mode or None, "restoreReason": run.restore_reason or None,
            "overrides": sorted(run.stated) if run.parent_id else [], "sweepPoint": run.sweep_point,
            "lastLoss": run.summary.get("lastLoss"), "lastFigure": last_figure(run), "modelId": run.model_id,
            "model": run.model.reference if run.model else None, "createdAt": run.created_at}
