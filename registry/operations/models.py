"""Registering models: base models when they are ready, adapters when a run ends, and what is said of them."""

from pathlib import Path
from typing import Any

from django.db import transaction

from optimize_site.kernel.auth import Actor
from optimize_site.kernel.blobs import put_file
from registry.base_model_queries import get_base_model
from registry.errors import AdapterIncomplete, MalformedDescriptor
from registry.model_queries import ADAPTER, BASE
from registry.models import Artifact, BaseModel, Version, Workload
from registry.operations.artifacts import NewVersion, register_version
from registry.operations.model_aliases import set_model_alias

EXAMPLE = 'Example: {"servingModel": {"variant": "BASE", "baseModel": "Qwen/Qwen3-0.6B"}}'
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
FORMATS = {BASE: "base-model", ADAPTER: "peft-lora"}


@transaction.atomic
def register_base_model(row: BaseModel, *, actor: Actor) -> Version:
    """The registered version of a prepared base model: `qwen/qwen3-0.6b:vN` for `Qwen/Qwen3-0.6B`.

    The same commit is the same version.
    """
    serving = {"variant": BASE, "baseModel": row.repository, "revision": row.revision}
    lineage = {"baseRevision": row.revision, "chatTemplateSha256": row.facts.get("chatTemplateSha256", ""),
               "files": row.facts.get("files", [])}
    new = NewVersion(FORMATS[BASE], descriptor={"servingModel": serving}, lineage=lineage,
                     produced_by_kind="base_model", produced_by_id=row.pk)
    return register_version(Artifact.Kind.MODEL, reference_name(row.repository), new, actor=actor)[0]


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
    new = NewVersion(FORMATS[ADAPTER], objects, descriptor={"servingModel": serving}, lineage=facts,
                     produced_by_kind="run", produced_by_id=run_id)
    reference = f"{workload.namespace_id}/{name or default_name(base_model)}"
    return register_version(Artifact.Kind.MODEL, reference, new, actor=actor)[0]


@transaction.atomic
def register_descriptor(reference: str, descriptor: dict[str, Any], *, alias: str = "", actor: Actor) -> Version:
    """Register a base model under a name of one's own, from `{"servingModel": {"variant": "BASE", "baseModel": …}}`.

    Without a revision it is pinned to the commit that was prepared here, or that the catalog states. Raises
    InvalidReference, MalformedDescriptor, NotFound.
    """
    serving = _base_serving(descriptor)
    state = get_base_model(str(serving["baseModel"]))
    revision = str(serving.get("revision") or state.revision)
    if not revision:
        raise MalformedDescriptor(f"The commit of {state.repository} is not known here.",
                                  hint=f"State `revision`, or run `base-models select {state.repository}` first.")
    pinned = {"variant": BASE, "baseModel": state.repository, "revision": revision}
    facts = {"baseRevision": revision, "chatTemplateSha256": state.chat_template_sha256}
    new = NewVersion(FORMATS[BASE], descriptor={"servingModel": pinned}, lineage=facts)
    version = register_version(Artifact.Kind.MODEL, reference, new, actor=actor)[0]
    if alias:
        set_model_alias(version.artifact, alias, version, actor=actor)
    return version


def _base_serving(descriptor: dict[str, Any]) -> dict[str, Any]:
    serving = descriptor.get("servingModel")
    if set(descriptor) != {"servingModel"} or not isinstance(serving, dict):
        raise MalformedDescriptor("A model descriptor holds `servingModel` and nothing else.", hint=EXAMPLE)
    if serving.get("variant") != BASE:
        raise MalformedDescriptor(f"The variant {serving.get('variant')!r} cannot be registered from a descriptor.",
                                  hint=f"A run registers its adapter itself. {EXAMPLE}")
    unknown = sorted(set(serving) - {"variant", "baseModel", "revision"})
    if unknown or not isinstance(serving.get("baseModel"), str):
        raise MalformedDescriptor(f"servingModel has unknown fields: {', '.join(unknown)}." if unknown else
                                  "servingModel.baseModel must name a repository.", hint=EXAMPLE)
    return serving


def reference_name(repository: str) -> str:
    """The registry name of a base model."""
    namespace, _, name = repository.lower().rpartition("/")
    return f"{namespace or 'local'}/{name}"


def default_name(repository: str) -> str:
    """The name of models trained from a base model: its own, lowercased."""
    return repository.lower().rpartition("/")[2]


def _keep(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    if not path.is_file():
        raise AdapterIncomplete(f"The adapter has no {name}.", hint="The run's last snapshot is incomplete.")
    blob = put_file(path)
    return {"path": name, "sha256": blob.sha256, "bytes": blob.size_bytes}
