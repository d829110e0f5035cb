"""Registering models: base models when they are ready or by a descriptor, adapters when a run ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.db import transaction

from optimize_site.kernel.auth import Actor
from optimize_site.kernel.blobs import put_file
from registry.adapter_files import CONFIG, WEIGHTS
from registry.base_model_queries import get_base_model
from registry.errors import AdapterIncomplete, MalformedDescriptor
from registry.lineage import BASE as BASE_PARENT
from registry.lineage import TRAINING, VALIDATION
from registry.model_descriptor import parse_model_descriptor
from registry.model_queries import ADAPTER, BASE
from registry.models import Artifact, BaseModel, Version, Workload
from registry.operations.artifacts import NewVersion, register_version
from registry.queries import find_version

ADAPTER_FILES = (CONFIG, WEIGHTS)
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
                       lineage: dict[str, Any], run_id: str, step: int, actor: Actor, model_id: str = "") -> Version:
    """Register the adapter a run ended with as `WORKLOAD/NAME:vN`; without a name it is called as its base model.

    With `model_id` it is a save on the way, produced by `RUN#STEP`, and has that model ID. The same run registers
    once, however often it is asked. Raises AdapterIncomplete where a file is missing.
    """
    objects = [_keep(adapter_folder, file) for file in ADAPTER_FILES]
    serving = {"variant": ADAPTER, "baseModel": base_model, "adapterRank": rank,
               "targetModules": sorted(target_modules), "ref": f"adapters/{model_id or run_id}"}
    parents = list(_parents_of_run(base_version, lineage))
    facts = lineage | {"run": run_id, "step": step, "baseRevision": base_revision, "workload": workload.pk,
                       "parents": parents}
    new = NewVersion(FORMATS[ADAPTER], objects, descriptor={"servingModel": serving}, lineage=facts,
                     produced_by_kind="run", produced_by_id=f"{run_id}#{step}" if model_id else run_id,
                     version_id=model_id)
    reference = f"{workload.namespace_id}/{name or default_name(base_model)}"
    return register_version(Artifact.Kind.MODEL, reference, new, actor=actor)[0]


@transaction.atomic
def register_descriptor(reference: str, document: Any, *, alias: str = "", actor: Actor) -> Version:
    """Register a base model under a name of one's own (or, where `reference` is empty, under its own name).

    Without a revision it is pinned to the commit that was prepared here, or that the catalog states. Raises
    InvalidReference, MalformedDescriptor, NotFound, NamespaceArchived.
    """
    actor.require("operator")
    descriptor = parse_model_descriptor(document)
    if not descriptor.is_base:
        raise MalformedDescriptor("The descriptor is of an adapter, and no adapter came with it.",
                                  hint="Send its two files: `--adapter FOLDER_OR_ZIP`.")
    state = get_base_model(descriptor.base_model)
    revision = descriptor.revision or state.revision
    if not revision:
        raise MalformedDescriptor(f"The commit of {state.repository} is not known here.",
                                  hint=f"State `revision`, or run `base-models select {state.repository}` first.")
    pinned = {"variant": BASE, "baseModel": state.repository, "revision": revision}
    facts = descriptor.lineage | {"baseRevision": revision, "chatTemplateSha256": state.chat_template_sha256}
    new = NewVersion(FORMATS[BASE], descriptor={"servingModel": pinned}, lineage=facts,
                     description=descriptor.description)
    return register_version(Artifact.Kind.MODEL, reference or reference_name(state.repository), new, actor=actor,
                            alias=alias)[0]


def _parents_of_run(base: Version | None, lineage: dict[str, Any]) -> Iterator[dict[str, str]]:
    """What a run's model came from: its base model and the datasets that its lineage names."""
    if base is not None:
        yield {"kind": BASE_PARENT, "reference": base.reference}
    for kind, name in ((TRAINING, "dataset"), (VALIDATION, "validationDataset")):
        dataset = find_version(Artifact.Kind.DATASET, lineage[name]) if lineage.get(name) else None
        if dataset is not None:
            yield {"kind": kind, "reference": dataset.reference}


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
