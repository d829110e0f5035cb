"""Plain functions that make what tests need, with overridable defaults. Set-up goes through operations where it can."""

import json
from types import SimpleNamespace
from typing import Any


def make_device_info(uuid: str = "cpu", **columns: Any) -> SimpleNamespace:
    """What the device probe would say of one device."""
    defaults = {"node": "here", "name": uuid, "kind": "gpu" if uuid.startswith("GPU") else "cpu", "profile": "cpu",
                "index": 0, "memory_bytes": 0, "host_memory_bytes": 24 * 1024**3, "slots": 1}
    return SimpleNamespace(uuid=uuid, **(defaults | columns))


def make_device(uuid: str = "cpu", **columns: Any) -> Any:
    """A present device of the box."""
    from optimize_site.kernel.models import Device

    defaults = {"node": "here", "name": uuid, "kind": "cpu", "profile": "cpu", "slots": 2,
                "host_memory_bytes": 24 * 1024**3}
    return Device.objects.create(uuid=uuid, **(defaults | columns))


def make_workload(name: str = "triage", **stated: Any) -> Any:
    """A workload with a namespace of its own name."""
    from optimize_site.kernel.auth import LOCAL
    from registry.operations.workloads import create_workload

    return create_workload(name, actor=LOCAL, **stated)


def chat_rows(count: int = 16, *, salt: str = "") -> bytes:
    """Chat JSONL of `count` different rows."""
    rows = [{"messages": [{"role": "user", "content": f"ticket {salt}{number}"},
                          {"role": "assistant", "content": '{"queue":"billing"}'}]} for number in range(count)]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def make_dataset(reference: str = "triage/train", rows: int | bytes = 16, *, alias: str = "") -> Any:
    """A registered dataset's version; rows of different datasets differ."""
    from datasets.operations import register_dataset
    from optimize_site.kernel.auth import LOCAL

    data = rows if isinstance(rows, bytes) else chat_rows(rows, salt=reference)
    return register_dataset(reference, [data], actor=LOCAL, alias=alias).version


TINY = "acme/tiny"


def make_base_model(repository: str = TINY, *, phase: str = "READY", revision: str = "rev-1", **columns: Any) -> Any:
    """A selected base model: a catalog entry in the state folder where the catalog has none, and its row."""
    from django.utils import timezone

    from optimize_site.kernel.catalog import load_catalog
    from registry.base_model_queries import entry_id
    from registry.models import BaseModel

    if load_catalog().find_base_model(repository) is None:
        add_to_catalog("base_models", f'["{repository}"]\nsource = {{ kind = "folder", path = "/nowhere" }}\n'
                       'context_length = 4096\nengines = { trl = ["sft", "dpo", "grpo", "gspo"] }\n')
    ready = {"revision": revision, "folder": "base-models/tiny", "facts": {"contextLength": 4096}} \
        if phase == "READY" else {}
    defaults = {"phase": phase, "selected_by": "local", "selected_at": timezone.now()} | ready
    return BaseModel.objects.create(id=entry_id(repository), repository=repository, **(defaults | columns))


def add_to_catalog(name: str, text: str) -> None:
    """Add entries to a catalog file of the state folder."""
    from optimize_site.kernel.conf import home

    path = home() / "catalogs" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + text)


def run_document(**changes: Any) -> dict[str, Any]:
    """The smallest run descriptor over what the other factories make; `config` and `execution` are laid over."""
    document: dict[str, Any] = {"kind": "run", "workload": "triage", "baseModel": TINY,
                                "config": {"dataset": "triage/train"}}
    document["config"] |= changes.pop("config", {})
    return document | changes


def make_run(phase: str = "", **changes: Any) -> Any:
    """A submitted run, with the workload, dataset and base model it needs; `phase` puts it there without events."""
    from optimize_site.kernel.auth import LOCAL
    from registry.models import BaseModel, Version, Workload
    from runs.models import Run
    from runs.operations import submit_run

    if not Workload.objects.filter(name="triage").exists():
        make_workload()
    if not Version.objects.filter(artifact__name="train", artifact__namespace="triage").exists():
        make_dataset()
    if not BaseModel.objects.filter(repository=TINY).exists():
        make_base_model()
    run = submit_run(run_document(**changes), actor=LOCAL).run
    if phase:
        Run.objects.filter(pk=run.pk).update(phase=phase)
        run.refresh_from_db()
    return run
