"""What a run leaves in the registry: its adapter, with all that tells where it came from."""

from typing import Any

from optimize_site.kernel.auth import SYSTEM
from registry.base_model_queries import base_model_state
from registry.models import Version
from registry.operations.models import register_run_model
from runs import queries
from runs.models import Run, Snapshot
from runs.warm_starts import lora_of


def register_adapter(run: Run, snapshot: Snapshot, *, model_id: str = "") -> Version:
    """The model of a snapshot's weights: the run's own, or with `model_id` one of its saves on the way.

    Registering the same again finds the first. Raises AdapterIncomplete and what the registry refuses.
    """
    state = base_model_state(run.base_model)
    lora = lora_of(run.config)
    return register_run_model(
        workload=run.workload, base_model=run.base_model, base_revision=run.base_revision,
        base_version=state.version if state else None, name=None, adapter_folder=queries.folder_of_snapshot(snapshot),
        rank=lora["rank"], target_modules=_target_modules(run, lora), lineage=_lineage(run, state), run_id=run.pk,
        step=snapshot.step, model_id=model_id, actor=SYSTEM)


def _target_modules(run: Run, lora: dict[str, Any]) -> list[str]:
    """The modules the adapter covers as the engine found them, else the pattern."""
    requested = ((run.engine_config or {}).get("requested") or {}).get("lora") or {}
    found = requested.get("target_modules")
    return [str(name) for name in found] if isinstance(found, list) else [lora["targetModules"]]


def _lineage(run: Run, state: Any) -> dict[str, Any]:
    validation = run.references.get("validationDataset")
    return {"configHash": run.config_hash, "method": run.method, "dataset": run.references["dataset"]["reference"],
            "datasetHash": run.references["dataset"]["contentHash"],
            "validationDataset": validation["reference"] if validation else None,
            "chatTemplateSha256": state.chat_template_sha256 if state else ""}
