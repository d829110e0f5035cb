"""Models by their ID: which there are, and everything that is known of one."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from evaluations.models import Evaluation
from evaluations.render import evaluation_row
from optimize_site.kernel.errors import InvalidInput
from registry.errors import NotABaseModel
from registry.model_queries import get_model, list_model_versions, list_models_from, list_models_over, serving_of
from registry.model_render import version_document, version_row
from registry.models import Version
from registry.workload_queries import get_workload
from runs.models import Run
from runs.queries import cost_of


def list_trained_models(*, workload: str = "", base_model: str = "", base_model_id: str = "") -> QuerySet[Version]:
    """Model versions, newest first, narrowed by at most one of the three.

    `base_model`, a repository, gives the base itself too; `base_model_id` only what was trained from that version.
    Raises InvalidInput for several, NotFound, NotABaseModel.
    """
    if sum(map(bool, (workload, base_model, base_model_id))) > 1:
        raise InvalidInput("Narrow by a workload, by a base model's repository, or by its ID.", code="filters_conflict",
                           hint="State one of them.")
    if workload:
        return list_model_versions().filter(artifact__namespace=get_workload(workload).namespace_id)
    if base_model:
        return list_models_over(base_model)
    if base_model_id:
        return list_models_from(_base(base_model_id))
    return list_model_versions()


def _base(text: str) -> Version:
    version = get_model(text)
    if not serving_of(version).is_base:
        raise NotABaseModel(f"{version.reference} is trained from {serving_of(version).base_model}.",
                            hint="Name a base model's ID.")
    return version


def trained_model_row(version: Version) -> dict[str, Any]:
    """A row of the list; `method` is how it was trained."""
    return version_row(version) | {"method": str(version.lineage.get("method") or "").upper() or None}


def trained_model_document(version: Version, evaluations: Iterable[Evaluation]) -> dict[str, Any]:
    """The whole record."""
    run = run_of(version)
    return trained_model_row(version) | version_document(version) | {
        "config": run.config if run else None, "configHash": version.lineage.get("configHash"),
        "cost": cost_of(run) if run else None, "evaluations": [evaluation_row(row) for row in evaluations]}


def run_of(version: Version) -> Run | None:
    """The run that made a model, by its end or by one of its saves; None for one from elsewhere and for a base."""
    if version.produced_by_kind != "run":
        return None
    return Run.objects.select_related("workload").filter(pk=version.produced_by_id.partition("#")[0]).first()
