"""Reads models: base models and adapters as registered versions, and what is known of each."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from optimize_site.kernel.errors import NotFound
from optimize_site.kernel.ids import HEX, SHOWN, find_by_prefix
from registry.models import Artifact, Version, Workload
from registry.version_queries import find_version

BASE, ADAPTER, WEIGHTS = "BASE", "ADAPTER", "WEIGHTS"


@dataclass(frozen=True)
class Serving:
    """What a model version is: the base model it is or stands on, and the adapter's shape."""

    variant: str
    base_model: str
    rank: int | None
    target_modules: tuple[str, ...]
    ref: str

    @property
    def is_base(self) -> bool:
        return self.variant == BASE


def serving_of(version: Version) -> Serving:
    """The serving part of a model version's descriptor."""
    serving = version.descriptor.get("servingModel", {})
    return Serving(serving.get("variant", ""), serving.get("baseModel", ""), serving.get("adapterRank"),
                   tuple(serving.get("targetModules") or ()), serving.get("ref", ""))


def list_model_versions() -> QuerySet[Version]:
    """Every model version, newest first."""
    return (Version.objects.filter(artifact__kind=Artifact.Kind.MODEL).select_related("artifact__namespace")
            .order_by("-created_at", "-number"))


def list_models(*, namespace: str = "") -> QuerySet[Artifact]:
    """Named models, newest first; of one namespace, or of all that are not archived."""
    named = Artifact.objects.filter(kind=Artifact.Kind.MODEL).select_related("namespace")
    models = named.order_by("-created_at", "name")
    return models.filter(namespace=namespace) if namespace else models.filter(namespace__archived_at=None)


def find_model(text: str, namespace: str = "") -> Version | None:
    """The model version that `text` names: a model ID or its prefix, `NS/NAME[:vN|:ALIAS]`, `NS/NAME@sha256:…`, a base
    model's repository, or a bare name in `namespace`. None where there is none; raises AmbiguousPrefix.
    """
    text = text.strip()
    if HEX.fullmatch(text) is not None and len(text) >= 4:
        try:
            return find_by_prefix(list_model_versions(), text, noun="model")
        except NotFound as error:
            if error.code != "not_found":
                raise
    return find_version(text, kind=Artifact.Kind.MODEL, namespace=namespace)


def get_model(text: str, namespace: str = "") -> Version:
    """The model version that `text` names. Raises NotFound."""
    found = find_model(text, namespace)
    if found is None:
        raise NotFound(f"There is no model {text!r}.", code="unknown_model",
                       hint="`registry models list` shows the names, `base-models list` the base models.")
    return found


def workload_of(version: Version) -> Workload | None:
    """The workload a trained model belongs to: that of its namespace. A base model belongs to none."""
    if serving_of(version).is_base:
        return None
    return Workload.objects.filter(namespace=version.artifact.namespace_id).first()


def base_version_of(version: Version) -> Version | None:
    """The registered base model a trained model stands on, or the base model itself."""
    if serving_of(version).is_base:
        return version
    parents = [parent["modelId"] for parent in version.lineage.get("parents", []) if parent.get("modelId")]
    return list_model_versions().filter(pk__in=parents).first() if parents else None


def filter_versions(artifact: Artifact, *, base_model: str = "", produced_by_kind: str = "",
                    produced_by_id: str = "") -> QuerySet[Version]:
    """An artifact's versions, newest first, narrowed by base model (repository or version reference) or by producer."""
    versions = list_model_versions().filter(artifact=artifact).order_by("-number")
    if base_model:
        versions = versions.filter(Q(descriptor__servingModel__baseModel__iexact=base_model)
                                   | Q(lineage__parents__contains=[{"reference": base_model.lower()}]))
    if produced_by_kind:
        versions = versions.filter(produced_by_kind=produced_by_kind, produced_by_id=produced_by_id)
    return versions


def shown_id(version: Version) -> str:
    """The beginning of a model ID, as tables show it."""
    return version.pk[:SHOWN]


def facts_of(version: Version) -> dict[str, Any]:
    """Where a model came from, for its page and its card."""
    serving, lineage = serving_of(version), version.lineage
    return {"baseModel": serving.base_model, "baseRevision": lineage.get("baseRevision", ""),
            "variant": serving.variant, "adapterRank": serving.rank,
            "targetModules": list(serving.target_modules), "runId": lineage.get("run", ""),
            "step": lineage.get("step"), "configHash": lineage.get("configHash", ""),
            "datasetReference": lineage.get("datasetReference", ""), "datasetHash": lineage.get("datasetHash", ""),
            "chatTemplateSha256": lineage.get("chatTemplateSha256", "")}
