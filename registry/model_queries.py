"""Reads models: base models and adapters as registered versions, and what is known of each."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from optimize_site.kernel.ids import SHOWN
from registry.errors import NoAdapter
from registry.lineage import BASE as BASE_PARENT
from registry.lineage import find_parent
from registry.models import Artifact, Parent, Version, Workload
from registry.queries import find_version, resolve_version

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


def list_model_versions(*, archived: bool = True) -> QuerySet[Version]:
    """Every model version, newest first; without `archived`, none of an archived namespace."""
    rows = Version.objects.filter(artifact__kind=Artifact.Kind.MODEL).select_related("artifact__namespace")
    rows = rows.order_by("-created_at", "-number")
    return rows if archived else rows.filter(artifact__namespace__archived_at=None)


def find_model(text: str, namespace: str = "") -> Version | None:
    """The model version that `text` names: a model ID or its prefix, `NS/NAME[:vN|:ALIAS]`, `NS/NAME@sha256:…`, a base
    model's repository, or a bare name in `namespace`. None where there is none; raises AmbiguousPrefix.
    """
    return find_version(Artifact.Kind.MODEL, text, namespace=namespace)


def get_model(text: str, namespace: str = "") -> Version:
    """The model version that `text` names. Raises UnknownVersion, AmbiguousName, AmbiguousPrefix, InvalidReference."""
    return resolve_version(Artifact.Kind.MODEL, text, namespace=namespace)


def get_adapter(text: str, namespace: str = "") -> Version:
    """The trained model that `text` names. Raises NotFound, or NoAdapter for a base model."""
    version = get_model(text, namespace)
    if not version.objects_listing:
        raise NoAdapter(f"{version.reference} is the base model itself; it has no adapter.",
                        hint="Name a model that a run trained.")
    return version


def workload_of(version: Version) -> Workload | None:
    """The workload a trained model belongs to: that of its namespace. A base model belongs to none."""
    if serving_of(version).is_base:
        return None
    return Workload.objects.filter(namespace=version.artifact.namespace_id).first()


def base_version_of(version: Version) -> Version | None:
    """The registered base model a trained model stands on, or the base model itself."""
    if serving_of(version).is_base:
        return version
    return find_parent(version, BASE_PARENT)


def filter_versions(artifact: Artifact, *, base_model: str = "", produced_by_kind: str = "",
                    produced_by_id: str = "") -> QuerySet[Version]:
    """An artifact's versions, newest first, narrowed by base model (repository or version reference) or by producer."""
    versions = list_model_versions().filter(artifact=artifact).order_by("-number")
    if base_model:
        version = find_model(base_model) if ":" in base_model or "@" in base_model else None
        versions = versions.filter(_stands_on(version) if version is not None else _is_over(base_model))
    if produced_by_kind:
        versions = versions.filter(produced_by_kind=produced_by_kind.lower(), produced_by_id=produced_by_id)
    return versions


def _stands_on(base: Version) -> Q:
    return Q(pk__in=Parent.objects.filter(kind=BASE_PARENT, parent=base).values("child"))


def _is_over(repository: str) -> Q:
    return Q(descriptor__servingModel__baseModel__iexact=repository)


def list_models_over(base: str) -> QuerySet[Version]:
    """A base model's versions and everything trained from it, newest first, by its repository."""
    return list_model_versions().filter(_is_over(base))


def list_models_from(base: Version) -> QuerySet[Version]:
    """The models that were trained from exactly this base model version, newest first."""
    return list_model_versions().filter(_stands_on(base))


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
            "dataset": lineage.get("dataset", ""), "datasetHash": lineage.get("datasetHash", ""),
            "chatTemplateSha256": lineage.get("chatTemplateSha256", "")}
