"""Aliases of models. `champion` in a workload's namespace is a promotion, whichever way it is asked for."""

from optimize_site.kernel import promotion
from optimize_site.kernel.auth import Actor
from registry.models import Alias, Artifact, Version, Workload, WorkloadReference
from registry.operations.artifacts import set_alias
from registry.queries import get_alias

CHAMPION = WorkloadReference.Name.CHAMPION.value


def set_model_alias(artifact: Artifact, name: str, version: Version, *, actor: Actor, note: str = "",
                    force: bool = False) -> Alias:
    """Point an alias of a model at one of its versions; `note` and `force` are for a promotion."""
    workload = Workload.objects.filter(namespace=artifact.namespace_id).first() if name.lower() == CHAMPION else None
    if workload is None or version.artifact_id != artifact.pk:
        return set_alias(artifact, name, version, actor=actor)
    promotion.promote(workload, version, actor=actor, note=note, force=force)
    return get_alias(artifact, CHAMPION)
