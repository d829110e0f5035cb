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


def open_upload(reference: str, rows: int = 8, *, by: str = "ada") -> Any:
    """An upload of one shard that somebody announced and did not send."""
    import hashlib

    from datasets.operations import Announced
    from datasets.operations import open_upload as announce
    from optimize_site.kernel.auth import Actor

    body = chat_rows(rows, salt=reference)
    announced = Announced(reference, [(hashlib.sha256(body).hexdigest(), len(body))])
    return announce(announced, actor=Actor(by, "operator"))[0]


TINY = "acme/tiny"


def make_base_model(repository: str = TINY, *, phase: str = "READY", revision: str = "rev-1", **columns: Any) -> Any:
    """A selected base model: a catalog entry in the state folder where the catalog has none, and its row."""
    from django.utils import timezone

    from optimize_site.kernel.catalog import load_catalog
    from registry.base_model_queries import entry_id
    from registry.models import BaseModel

    if repository not in load_catalog().base_models:
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
    """A submitted run, with the workload, measured dataset and base model it needs; `phase` puts it there without
    events."""
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
    document = run_document(**changes)
    measured(document["config"]["dataset"], (document["config"].get("data") or {}).get("validationDataset"))
    run = submit_run(document, actor=LOCAL).run
    if phase:
        Run.objects.filter(pk=run.pk).update(phase=phase)
        run.refresh_from_db()
    return run


def put_weights(base_model: Any) -> Any:
    """Lay a folder under a READY base model, as preparing it would, and register its version."""
    from optimize_site.kernel.auth import SYSTEM
    from optimize_site.kernel.conf import home
    from registry.operations.models import register_base_model

    folder = home() / base_model.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    base_model.version = register_base_model(base_model, actor=SYSTEM)
    base_model.save()
    return base_model


def make_adapter(workload: Any, base_model: Any, *, run_id: str = "a" * 64, weights: bytes = b"weights",
                 step: int = 10, **lineage: Any) -> Any:
    """A model that a run of the workload trained, registered as RECORDING does it."""
    import tempfile
    from pathlib import Path

    from optimize_site.kernel.auth import SYSTEM
    from registry.operations.models import register_run_model

    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "adapter_config.json").write_text('{"peft_type": "LORA"}')
        (Path(name) / "adapter_model.safetensors").write_bytes(weights)
        return register_run_model(
            workload=workload, base_model=base_model.repository, base_revision=base_model.revision,
            base_version=base_model.version, name=None, adapter_folder=Path(name), rank=8,
            target_modules=["q_proj", "k_proj"], lineage={"configHash": "c" * 64} | lineage, run_id=run_id, step=step,
            actor=SYSTEM)


def make_judge(model: Any, holder_kind: str, holder_id: str, **columns: Any) -> Any:
    """A model held to grade answers for a run or an evaluation, which needs not be there."""
    from endpoints.models import Judge

    stated = {"phase": "READY", "profile": "cpu", "created_by": "local"} | columns
    return Judge.objects.create(model=model, holder_kind=holder_kind, holder_id=holder_id, **stated)


def claim_job(device: str = "cpu", slot: int = 0) -> Any:
    """What a device's worker does first: give the slot the oldest waiting work. Gives the attempt, or None."""
    from gpu_worker.claims import claim

    return claim(device, slot)


def tell_job(attempt: Any, *events: dict[str, Any]) -> None:
    """Have a claimed job say these events, stored as the worker stores them."""
    from django.db import transaction

    from gpu_worker.kinds import KINDS
    from optimize_site.kernel.events import notify

    kind = KINDS[attempt.holder_kind]
    with transaction.atomic():
        kind.on_events(kind.get(attempt.holder_id), attempt, events)
        notify(attempt.holder_kind, attempt.holder_id)


def end_job(attempt: Any, outcome: str = "finished", last_words: str = "") -> None:
    """The job's process is gone: settle the attempt and free the slot, as the worker does."""
    from django.db import transaction
    from django.utils import timezone

    from gpu_worker.claims import release
    from gpu_worker.kinds import KINDS
    from optimize_site.kernel.models import Attempt
    from optimize_site.kernel.work import Ending

    kind = KINDS[attempt.holder_kind]
    with transaction.atomic():
        Attempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now(), outcome=outcome)
        attempt.refresh_from_db()
        kind.on_exit(kind.get(attempt.holder_id), attempt, Ending(outcome, {}, last_words))
        release(attempt.lease)


def run_job(*events: dict[str, Any], outcome: str = "finished", device: str = "cpu") -> Any:
    """A whole job: claimed, started, these events, gone."""
    attempt = claim_job(device)
    tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, *events)
    end_job(attempt, outcome)
    return attempt


def analysis_report(lengths: Any, **changes: Any) -> dict[str, Any]:
    """What an analysis's job reports of rows of these lengths, each `tokens` or `(tokens, trimmed)`."""
    pairs = [row if isinstance(row, tuple) else (row, row) for row in lengths]
    tokens = sorted(whole for whole, _ in pairs)

    def at(share: float) -> int:
        return tokens[min(len(tokens) - 1, int(share * len(tokens)))]

    order = sorted(range(len(pairs)), key=lambda row: -pairs[row][0])
    limits = (512, 1024, 2048, 4096, 8192, 16384, 32768)
    return {
        "tokenizer": {"repository": TINY, "revision": "rev-1"}, "chatTemplateSha256": "5" * 64,
        "templateOrigin": "shipped", "productVersion": "0.1.0", "format": "chat-jsonl-v1", "rows": len(pairs),
        "lengths": {"median": at(0.5), "p90": at(0.9), "p99": at(0.99), "longest": tokens[-1],
                    "mean": sum(tokens) / len(tokens)},
        "limits": [{"limit": limit, "over": sum(whole > limit for whole, _ in pairs),
                    "overTrimmed": sum(least > limit for _, least in pairs)} for limit in limits],
        "longestRows": [{"line": row + 1, "row": row, "tokens": pairs[row][0], "trimmedTokens": pairs[row][1]}
                        for row in order[:20]],
        "suggestedMaxSeqLength": next(limit for limit in limits if limit >= tokens[-1]),
        "trainedTokens": {"default": len(pairs), "all": 2 * len(pairs)}, "totalTokens": sum(tokens),
        "templateProblems": [], "templateProblemRows": 0, "consecutiveAssistant": {"rows": 0, "first": []},
        "toolRows": 0, "histogram": {"edges": [0, 512, 1024, 2048], "counts": [len(pairs), 0, 0]},
        "duplicates": {"exact": 0, "near": 0, "examples": []}, "labels": [], "languages": []} | changes


def write_lengths(analysis: Any, lengths: Any) -> None:
    """Lay down the file of single rows as an analysis's job does."""
    import sys
    from array import array

    from datasets.analyses.queries import folder_of
    from datasets.analyses.row_lengths import NAME

    pairs = [row if isinstance(row, tuple) else (row, row) for row in lengths]
    numbers = array("i", [number for whole, least in pairs for number in (whole, least, 1, 2)])
    if sys.byteorder != "little":
        numbers.byteswap()
    folder_of(analysis).mkdir(parents=True, exist_ok=True)
    (folder_of(analysis) / NAME).write_bytes(numbers.tobytes())


def measured(*references: str | None, repository: str = TINY, tokens: int = 10) -> None:
    """Finished analyses of these datasets under a base model, as if their jobs had run: rows that all fit."""
    from datasets.models import Analysis
    from optimize_site.kernel.box import VERSION
    from registry.models import BaseModel
    from registry.queries import resolve_version

    base = BaseModel.objects.filter(repository=repository).exclude(revision="").first()
    for version in (resolve_version("dataset", reference) for reference in references if reference and base):
        lengths = [tokens] * version_rows(version)
        analysis, is_new = Analysis.objects.get_or_create(
            examples_id=version.content_hash, repository=repository, revision=base.revision, product_version=VERSION,
            defaults={"phase": "COMPLETED", "report": analysis_report(lengths), "created_by": "local"})
        if is_new:
            write_lengths(analysis, lengths)


def finish_analyses(tokens: int = 10) -> None:
    """The jobs of all waiting analyses run to their end: rows that all fit."""
    from datasets.models import Analysis
    from optimize_site.kernel.models import Device

    device = "host" if Device.objects.filter(uuid="host").exists() else "cpu"
    for analysis in Analysis.objects.select_related("examples").filter(phase="PENDING").order_by("queued_at"):
        lengths = [tokens] * analysis.examples.num_examples
        write_lengths(analysis, lengths)
        run_job({"type": "finished", "report": analysis_report(lengths)}, device=device)


def version_rows(version: Any) -> int:
    """How many rows a dataset's version holds."""
    from datasets.models import ExampleSet

    return int(ExampleSet.objects.values_list("num_examples", flat=True).get(pk=version.content_hash))


def analyze(dataset: Any, lengths: Any, *, repository: str = TINY, **report: Any) -> Any:
    """A finished analysis of a dataset's version: started, its job run on the host, its measurements laid down."""
    from datasets.analyses.operations import start_analysis
    from datasets.analyses.queries import get_analysis
    from datasets.models import ExampleSet
    from optimize_site.kernel.auth import LOCAL
    from optimize_site.kernel.models import Device
    from registry.base_model_queries import get_base_model

    if not Device.objects.filter(uuid="host").exists():
        make_device("host", kind="host", profile="host")
    examples = ExampleSet.objects.get(pk=dataset.content_hash)
    analysis = start_analysis(examples, get_base_model(repository), actor=LOCAL).analysis
    write_lengths(analysis, lengths)
    run_job({"type": "finished", "report": analysis_report(lengths, **report)}, device="host")
    return get_analysis(analysis.pk)
