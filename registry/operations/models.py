"""Registering models: base models when they are ready, adapters when a run ends, and what is said of them."""

from pathlib import Path
from typing import Any

from django.db import transaction

from optimize_site.kernel import events
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.blobs import put_file
from optimize_site.kernel.errors import Refused
from optimize_site.kernel.hashing import sha256_json
from registry.model_queries import ADAPTER, BASE
from registry.models import Artifact, BaseModel, Namespace, Version, Workload

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
FORMATS = {BASE: "base-model", ADAPTER: "peft-lora"}


class AdapterIncomplete(Refused):
    code = "adapter_incomplete"


@transaction.atomic
def register_base_model(row: BaseModel, *, actor: Actor) -> Version:
    """The registered version of a prepared base model: `qwen/qwen3-0.6b:vN` for `Qwen/Qwen3-0.6B`.

    The same commit is the same version.
    """
    serving = {"variant": BASE, "baseModel": row.repository, "revision": row.revision}
    return _append_version(
        reference_name(row.repository), {"servingModel": serving}, actor=actor, producer=("base_model", row.pk),
        lineage={"baseRevision": row.revision, "chatTemplateSha256": row.facts.get("chatTemplateSha256", ""),
                 "files": row.facts.get("files", [])})


@transaction.atomic
def register_run_model(*, workload: Workload, base_model: str, base_revision: str, base_version: Version | None,
                       name: str | None, adapter_folder: Path, rank: int, target_modules: list[str],
                       lineage: dict[str, Any], run_id: str, step: int, actor: Actor) -> Version:
    """Register the adapter a run ended with as `WORKLOAD/NAME:vN`; without a name it is called as its base model.

    The same run registers once, however often it is asked. Raises AdapterIncomplete where a file is missing.
    """
    objects = [_keep(adapter_folder, file) for file in ADAPTER_FILES]
    serving = {"variant": ADAPTER, "baseModel": base_model, "adapterRank": rank,
               "targetModules": sorted(target_modules), "ref": f"adapters/{run_id}"}
    parents = [] if base_version is None else [
        {"kind": "model/base", "reference": base_version.reference, "modelId": base_version.pk}]
    facts = lineage | {"run": run_id, "step": step, "baseRevision": base_revision, "workload": workload.pk,
                       "parents": parents}
    return _append_version(f"{workload.namespace_id}/{name or default_name(base_model)}", {"servingModel": serving},
                           objects=objects, lineage=facts, producer=("run", run_id), actor=actor)


def reference_name(repository: str) -> str:
    """The registry name of a base model."""
    namespace, _, name = repository.lower().rpartition("/")
    return f"{namespace or 'local'}/{name}"


def default_name(repository: str) -> str:
    """The name of models trained from a base model: its own, lowercased."""
    return repository.lower().rpartition("/")[2]


@transaction.atomic
def annotate_model(version: Version, *, description: str | None, actor: Actor) -> Version:
    """Set the note on a model version; an empty text clears it, None leaves it. Its identity stays."""
    actor.require("operator")
    if description is not None and description != version.description:
        Version.objects.filter(pk=version.pk).update(description=description)
        events.record("model", version.pk, "model.annotated", actor=actor, data={"description": description})
        version.refresh_from_db()
    return version


def _keep(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    if not path.is_file():
        raise AdapterIncomplete(f"The adapter has no {name}.", hint="The run's last snapshot is incomplete.")
    blob = put_file(path)
    return {"path": name, "sha256": blob.sha256, "bytes": blob.size_bytes}


def _append_version(reference: str, descriptor: dict[str, Any], *, actor: Actor, lineage: dict[str, Any],
                    producer: tuple[str, str], objects: list[dict[str, Any]] | None = None) -> Version:
    """The version of a named model with this descriptor and these files: the one there is, else the next number."""
    artifact = _artifact(reference, actor)
    objects = objects or []
    digest = sha256_json({"descriptor": descriptor, "objects": objects})
    held = artifact.versions.filter(digest=digest).first()
    if held is not None:
        return held
    number = artifact.versions.count() + 1
    version = Version.objects.create(
        artifact=artifact, number=number, digest=digest, content_hash=digest, descriptor=descriptor,
        format=FORMATS[descriptor["servingModel"]["variant"]], objects_listing=objects, lineage=lineage,
        produced_by_kind=producer[0], produced_by_id=producer[1], created_by=actor.name)
    events.record("model", version.pk, "model.registered", actor=actor, data={"reference": version.reference})
    return version


def _artifact(reference: str, actor: Actor) -> Artifact:
    """The named model, locked, so that two registrations take turns for a number."""
    space, _, name = reference.partition("/")
    namespace, _ = Namespace.objects.get_or_create(name=space, defaults={"created_by": actor.name})
    Artifact.objects.get_or_create(kind=Artifact.Kind.MODEL, namespace=namespace, name=name)
    return Artifact.objects.select_for_update().get(kind=Artifact.Kind.MODEL, namespace=namespace, name=name)
