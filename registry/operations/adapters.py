"""Registering adapters that were trained elsewhere: looked through first, and nothing kept of one that is refused."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.db import transaction

from optimize_site.kernel.archives import Entry, Limits, examine_archive, read_entry, received
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.blobs import put_stream
from optimize_site.kernel.catalog import load_catalog
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import NotFound
from registry.adapter_files import (
    CONFIG,
    PICKLES,
    WEIGHTS,
    AdapterConfig,
    base_shapes,
    check_weights,
    read_config,
)
from registry.base_model_queries import BaseModelState, find_base_model
from registry.errors import AdapterIncomplete, AdapterRefused, MalformedDescriptor, MalformedLineage
from registry.lineage import BASE as BASE_PARENT
from registry.lineage import base_parent, resolve_lineage
from registry.model_descriptor import ModelDescriptor, parse_model_descriptor
from registry.model_queries import ADAPTER, get_model, serving_of
from registry.models import Artifact, Version
from registry.operations.artifacts import NewVersion, register_version
from registry.operations.models import FORMATS, default_name
from registry.operations.namespaces import check_open
from registry.operations.workloads import refuse_archived_owner
from registry.references import DEFAULT_NAMESPACE, parse_artifact


def register_adapter(reference: str, document: Any, chunks: Iterable[bytes], *, alias: str = "",
                     actor: Actor) -> Version:
    """Register the adapter that a ZIP holds, given as its bytes in order, over a registered base model.

    Without a `reference` it is called as its base model, in `default`. The same files and descriptor give the version
    there is. Raises MalformedDescriptor, MalformedLineage, UnknownVersion, ArchiveRefused, AdapterIncomplete,
    AdapterRefused, NamespaceArchived, WorkloadArchived.
    """
    actor.require("operator")
    descriptor = parse_model_descriptor(document)
    if descriptor.is_base:
        raise MalformedDescriptor("The descriptor is of a base model, and an adapter came with it.",
                                  hint='Its servingModel.variant must be "ADAPTER".')
    base = _base_version(descriptor)
    reference = reference or f"{DEFAULT_NAMESPACE}/{default_name(serving_of(base).base_model)}"
    namespace = parse_artifact(reference).namespace
    check_open(namespace)
    refuse_archived_owner(namespace)
    lineage = _lineage(descriptor, base, namespace)
    with received(chunks, limits().max_bytes) as path:
        return _register(reference, descriptor, base, lineage, path, alias=alias, actor=actor)


def limits() -> Limits:
    """How large an adapter's archive may be."""
    most = int(setting("registry.adapters.max-bytes"))
    return Limits(most, most, max_entries=100)


@transaction.atomic
def _register(reference: str, descriptor: ModelDescriptor, base: Version, lineage: dict[str, Any], path: Path, *,
              alias: str, actor: Actor) -> Version:
    folder = _folder_of(examine_archive(path, limits()))
    repository = serving_of(base).base_model
    state = find_base_model(repository)
    most = _max_rank(state)
    data = b"".join(read_entry(path, folder + CONFIG))
    config = read_config(data, max_rank=most)
    _check_stated(descriptor, config, base)
    shapes = base_shapes(state.folder) if state is not None and state.folder is not None else None
    weights = put_stream(read_entry(path, folder + WEIGHTS),
                         check=lambda file: check_weights(file, config, max_rank=most, base=shapes))
    objects = [{"path": name, "sha256": blob.sha256, "bytes": blob.size_bytes}
               for name, blob in ((CONFIG, put_stream([data])), (WEIGHTS, weights))]
    serving = {"variant": ADAPTER, "baseModel": repository, "adapterRank": config.rank,
               "targetModules": list(config.target_modules), "ref": f"adapters/{weights.sha256}"}
    new = NewVersion(FORMATS[ADAPTER], objects, descriptor={"servingModel": serving, "base": base.reference},
                     lineage=lineage, description=descriptor.description)
    return register_version(Artifact.Kind.MODEL, reference, new, actor=actor, alias=alias)[0]


def _max_rank(state: BaseModelState | None) -> int:
    own = state.entry.max_rank if state is not None and state.entry is not None else None
    return own or load_catalog().defaults.max_rank


def _base_version(descriptor: ModelDescriptor) -> Version:
    """The registered base model that the adapter stands on. Raises UnknownVersion, MalformedDescriptor."""
    named = descriptor.base_model
    state = find_base_model(named) if named.count("/") == 1 and ":" not in named else None
    version = (state.version if state is not None else None) or _named_base(named)
    if not serving_of(version).is_base:
        raise MalformedDescriptor(f"servingModel.baseModel is {version.reference}, which is trained itself.",
                                  hint=f"An adapter stands on a base model: {serving_of(version).base_model}.")
    return version


def _named_base(named: str) -> Version:
    try:
        return get_model(named)
    except NotFound as error:
        raise type(error)(f"The base model {named} is not registered here.", code=error.code,
                          hint=f"Run `base-models select {named} --wait`, or register it first.") from error


def _lineage(descriptor: ModelDescriptor, base: Version, namespace: str) -> dict[str, Any]:
    """The stated lineage with the base model in it. Raises MalformedLineage where it names another."""
    stated = base_parent(resolve_lineage(descriptor.lineage, namespace).parents)
    if stated is not None and stated.pk != base.pk:
        raise MalformedLineage(f"The lineage says the adapter stands on {stated.reference}, and "
                               f"servingModel.baseModel is {base.reference}.",
                               hint="Name the same one in both, or leave it out of the lineage.")
    own = [] if stated is not None else [{"kind": BASE_PARENT, "reference": base.reference}]
    return descriptor.lineage | {"parents": [*own, *descriptor.lineage.get("parents", [])],
                                 "baseRevision": base.lineage.get("baseRevision", ""),
                                 "chatTemplateSha256": base.lineage.get("chatTemplateSha256", "")}


def _folder_of(entries: list[Entry]) -> str:
    """Where in the archive the two files lie: at its root, or in its one folder. Raises AdapterIncomplete."""
    files = {entry.path for entry in entries if not entry.is_folder}
    for path in sorted(files):
        if path.lower().endswith(PICKLES):
            raise AdapterRefused(f"{path} may be a pickle, and pickles run code when they are loaded.",
                                 hint=f"Send {CONFIG} and {WEIGHTS} alone.")
    folders = [path.removesuffix(CONFIG) for path in files if path.rpartition("/")[2] == CONFIG]
    if len(folders) != 1 or folders[0] + WEIGHTS not in files:
        raise AdapterIncomplete(f"An adapter is one {CONFIG} with {WEIGHTS} beside it; the archive holds "
                                f"{', '.join(sorted(files)[:5])}.", hint="PEFT's save_pretrained writes both.")
    return folders[0]


def _check_stated(descriptor: ModelDescriptor, config: AdapterConfig, base: Version) -> None:
    """What the descriptor and the adapter's own configuration both say must be the same."""
    serving, revision = serving_of(base), base.lineage.get("baseRevision", "")
    if descriptor.rank is not None and descriptor.rank != config.rank:
        raise AdapterRefused(f"servingModel.adapterRank is {descriptor.rank}, and {CONFIG} says {config.rank}.")
    if _is_repository(config.base_model) and config.base_model.lower() != serving.base_model.lower():
        raise AdapterRefused(f"{CONFIG} says the adapter was made over {config.base_model}, and the base model is "
                             f"{serving.base_model}.", hint="Name the base model that it was made over.")
    if config.revision and revision and config.revision not in (revision, "main"):
        raise AdapterRefused(f"{CONFIG} says the adapter was made over the commit {config.revision}, and "
                             f"{base.reference} is {revision}.", hint="Name the version of that commit.")


def _is_repository(name: str) -> bool:
    """Whether a base model is named as OWNER/NAME; a path of the machine it was trained on says nothing here."""
    return name.count("/") == 1 and not name.startswith(("/", ".", "~"))
