"""Pages of models: the list, one with its lineage, scores and files, and the box in which to try it."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from evaluations.queries import list_evaluations
from optimize_site.kernel.feeds import Item, items
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed, wants_archived
from optimize_site.kernel.scores import best_scores_of_models
from registry.base_model_queries import find_base_model
from registry.lineage import ancestors_of, descendants_of
from registry.model_queries import base_version_of, facts_of, get_model, list_model_versions, serving_of, workload_of
from registry.models import Version
from registry.queries import find_version, list_aliases, list_versions
from registry.views.kin import kin_rows
from registry.views.names import keep_note, point_alias, take_alias
from registry.workload_queries import references_of
from runs.models import Run
from runs.pages import title_of

EVALUATIONS = 20


@require_GET
def model_list(request: HtmxRequest) -> HttpResponse:
    """Trained models and registered base models, newest first."""
    archived = wants_archived(request)
    page = listed(request, list_model_versions(archived=archived).prefetch_related("aliases"))
    scores = best_scores_of_models(version.pk for version in page["rows"])
    page["rows"] = [{"version": version, "serving": serving_of(version), "score": scores.get(version.pk),
                     "aliases": version.aliases.all()} for version in page["rows"]]
    return render(request, "models/list.html", page | {"archived": archived})


@require_GET
def detail(request: HtmxRequest, model_id: str) -> HttpResponse:
    """One model: where it came from, its scores, its files, and a box to try it."""
    version = get_model(model_id)
    serving, workload = serving_of(version), workload_of(version)
    state = find_base_model(serving.base_model)
    champion = references_of(workload).get("champion") if workload else None
    return render(request, "models/detail.html", {
        "version": version, "serving": serving, "facts": facts_of(version), "workload": workload,
        "is_champion": champion is not None and champion.version_id == version.pk,
        "ancestors": kin_rows(ancestors_of(version)), "descendants": kin_rows(descendants_of(version)),
        "versions": list_versions(version.artifact), "aliases": list_aliases(version.artifact),
        "lineage": _lineage(version), "run": _run(version),
        "uses": items("model-uses", version),
        "evaluations": list_evaluations(model=version, archived=True)[:EVALUATIONS],
        "score": best_scores_of_models([version.pk]).get(version.pk),
        "total_bytes": sum(item["bytes"] for item in version.objects_listing),
        "try_why_not": "" if state is not None and state.is_ready
        else f"{serving.base_model} is not ready on this box; choose it under Box first."})


@require_POST
def set_alias(request: HtmxRequest, model_id: str) -> HttpResponse:
    """Point an alias of the model at this version; `champion` in a workload's namespace is a promotion."""
    version = get_model(model_id)
    return point_alias(request, version, reverse("evaluations:model", args=[version.pk]))


@require_POST
def remove_alias(request: HtmxRequest, model_id: str) -> HttpResponse:
    """Take an alias of the model away; versions stay, and a workload's champion is refused."""
    version = get_model(model_id)
    return take_alias(request, version, reverse("evaluations:model", args=[version.pk]))


@require_POST
def annotate(request: HtmxRequest, model_id: str) -> HttpResponse:
    """Set the note on the version; an empty one clears it."""
    version = get_model(model_id)
    return keep_note(request, version, reverse("evaluations:model", args=[version.pk]))


def _run(version: Version) -> Run | None:
    if version.produced_by_kind != "run":
        return None
    return Run.objects.filter(pk=version.produced_by_id.partition("#")[0]).first()


def _lineage(version: Version) -> dict[str, Any]:
    """The nodes of the small graph: data and base on the left, the run in the middle."""
    found: dict[str, Any] = {"parents": [], "run": None}
    dataset = _dataset(version)
    if dataset is not None:
        found["parents"].append(Item("Dataset", dataset.reference, reverse("datasets:version", args=[dataset.pk])))
    base = base_version_of(version)
    if base is not None and base.pk != version.pk:
        found["parents"].append(Item("Base model", serving_of(base).base_model,
                                     reverse("evaluations:model", args=[base.pk])))
    run = _run(version)
    if run is not None:
        found["run"] = Item("Run", title_of(run.config_name, run.description, run.pk),
                            reverse("runs:detail", args=[run.pk]), run.phase)
    return found


def _dataset(version: Version) -> Version | None:
    named = str(version.lineage.get("dataset") or version.lineage.get("datasetHash") or "")
    return find_version("dataset", named, namespace=version.artifact.namespace_id) if named else None
