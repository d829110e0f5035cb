"""Routes that datasets, models and bundles have alike: their aliases."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from optimize_site.kernel.auth import actor_of
from registry.models import Artifact
from registry.operations import artifacts
from registry.queries import alias_history, get_alias, get_artifact, get_version, list_versions
from registry.references import LATEST
from registry.render import alias_document, latest_document
from registry.schemas import AliasTarget

PATH = "/{namespace}/{name}/aliases/{alias}"


def add_alias_routes(router: Router, kind: str) -> None:
    """Give a kind's router the routes that read, set and take away an alias."""

    @router.get(PATH, operation_id=f"get_{kind}_alias")
    def get_named_alias(request: HttpRequest, namespace: str, name: str, alias: str) -> dict[str, Any]:
        """Where an alias points, and where it pointed since it was set, oldest first; `latest` has every version."""
        return alias_whole(get_artifact(kind, f"{namespace}/{name}"), alias)

    @router.put(PATH, operation_id=f"set_{kind}_alias")
    def set_named_alias(request: HttpRequest, namespace: str, name: str, alias: str,
                        body: AliasTarget) -> dict[str, Any]:
        """Create or move an alias. `champion` on a model in a workload's namespace is a promotion."""
        artifact = get_artifact(kind, f"{namespace}/{name}")
        placed = artifacts.set_alias(artifact, alias, get_version(artifact, body.version), note=body.note,
                                     force=body.force, actor=actor_of(request))
        return alias_whole(artifact, placed.name)

    @router.delete(PATH, response={204: None}, operation_id=f"remove_{kind}_alias")
    def remove_named_alias(request: HttpRequest, namespace: str, name: str, alias: str) -> Status[None]:
        """Take an alias away; versions stay, and setting it again starts a new history."""
        artifacts.remove_alias(get_artifact(kind, f"{namespace}/{name}"), alias, actor=actor_of(request))
        return Status(204, None)


def alias_whole(artifact: Artifact, name: str) -> dict[str, Any]:
    """An alias with its history; the computed `latest` reads as any other."""
    if name.lower() == LATEST:
        return latest_document(artifact, list_versions(artifact))
    return alias_document(get_alias(artifact, name), alias_history(artifact, name))
