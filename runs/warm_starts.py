"""Adapters that reinforcement runs start from: looked up in the registry, and what their own files say of them."""

import json
from collections.abc import Mapping
from typing import Any

from optimize_site.kernel.blobs import blob_path
from optimize_site.kernel.errors import Refused
from registry.adapter_files import CONFIG
from registry.model_queries import get_adapter, serving_of
from registry.models import Version
from runs.facts import WarmStartFacts
from runs.models import Run

ANY_MODULE = "default"


class AdapterUnreadable(Refused):
    """A registered adapter whose files are not here, or say nothing of its shape."""

    code = "adapter_unreadable"


def warm_start_facts(text: str, namespace: str | None = None) -> WarmStartFacts:
    """The adapter that `text` names. Raises UnknownVersion, NoAdapter, AdapterUnreadable."""
    version = get_adapter(text, namespace or "")
    serving, lineage = serving_of(version), version.lineage
    return WarmStartFacts(text, version.reference, version.pk, str(lineage.get("configHash") or version.digest),
                          serving.base_model, str(lineage.get("baseRevision") or ""), _shape_of(version))


def _shape_of(version: Version) -> dict[str, Any]:
    """Rank, alpha and modules as the adapter's own file has them; the modules in the words of the run that trained it,
    where that was a run of this box."""
    config = _config_of(version)
    return {"rank": config["r"], "alpha": config.get("lora_alpha") or config["r"],
            "targetModules": _trained_modules(version) or _pattern(config.get("target_modules"))}


def _config_of(version: Version) -> dict[str, Any]:
    entry = next((entry for entry in version.objects_listing if entry["path"].rpartition("/")[2] == CONFIG), None)
    try:
        found = json.loads(blob_path(entry["sha256"]).read_bytes()) if entry else {}
        if isinstance(found["r"], int):
            return dict(found)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise AdapterUnreadable(f"The {CONFIG} of {version.reference} cannot be read, or states no rank.",
                            hint="Register the adapter again.")


def _trained_modules(version: Version) -> str:
    run = Run.objects.filter(pk=version.produced_by_id.partition("#")[0]).only("config").first() \
        if version.produced_by_kind == "run" else None
    return str(lora_of(run.config)["targetModules"]) if run is not None else ""


def lora_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The adapter's shape in the configuration of any method."""
    return dict((config.get("hyperparams") or config["rlHyperparams"])["lora"])


def _pattern(modules: Any) -> str:
    """PEFT's modules as one pattern: names stand for every module that ends with them."""
    if isinstance(modules, str):
        return modules
    names = sorted({str(name).rpartition(".")[2] for name in modules or []})
    return rf"(?:.*\.)?(?:{'|'.join(names)})" if names else ANY_MODULE
