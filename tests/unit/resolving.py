"""Facts for tests that resolve descriptors without a database."""

from typing import Any

from optimize_site.kernel.catalog import BaseModelEntry, Catalog, Envelope, Source, load_catalog
from runs.descriptor import parse_descriptor
from runs.facts import BaseModelFacts, DatasetFacts, DeviceFacts, Facts, WorkloadFacts
from runs.resolve import Resolved, resolve

TINY = "acme/tiny"
TRAIN, HELD_OUT = "a" * 64, "b" * 64


def make_entry(**stated: Any) -> BaseModelEntry:
    defaults = {"repository": TINY, "source": Source(kind="folder", path="/x"), "context_length": 4096,
                "engines": {"trl": ["sft", "dpo", "grpo", "gspo"]}}
    return BaseModelEntry(**(defaults | stated))


def make_dataset_facts(content_hash: str = TRAIN, **stated: Any) -> DatasetFacts:
    defaults = {"stated": "train", "reference": "triage/train:v1", "version_id": "1" * 64, "num_examples": 100}
    return DatasetFacts(content_hash=content_hash, **(defaults | stated))


def make_catalog(**stated: Any) -> Catalog:
    shipped = load_catalog()
    parts = {"base_models": shipped.base_models, "devices": shipped.devices, "engines": shipped.engines,
             "defaults": shipped.defaults}
    return Catalog(**(parts | stated))


def make_facts(**stated: Any) -> Facts:
    entry, template = stated.pop("entry", None) or make_entry(), stated.pop("base_template", "")
    defaults: dict[str, Any] = {
        "catalog": make_catalog(), "workload": WorkloadFacts("w" * 64, "triage", "triage"),
        "base_model": BaseModelFacts(entry, "READY", "e" * 64, "rev", None, is_selected=True,
                                     chat_template_sha256=template),
        "dataset": make_dataset_facts(), "devices": (DeviceFacts("cpu", "cpu", 1, 24.0),)}
    return Facts(**(defaults | stated))


def document(config: dict[str, Any] | None = None, **stated: Any) -> dict[str, Any]:
    whole = {"kind": "run", "workload": "triage", "baseModel": TINY, "config": {"dataset": "train"} | (config or {})}
    return whole | stated


def resolved(config: dict[str, Any] | None = None, *, facts: Facts | None = None, **stated: Any) -> Resolved:
    """A descriptor's resolution against facts in which nothing is wrong, unless told otherwise."""
    return resolve(parse_descriptor(document(config, **stated)), facts or make_facts())


def problems(config: dict[str, Any] | None = None, *, facts: Facts | None = None, **stated: Any) -> dict[str, str]:
    """Each problem's path and code."""
    return {problem.path: problem.code for problem in resolved(config, facts=facts, **stated).problems}


def only_problem(config: dict[str, Any] | None = None, *, facts: Facts | None = None, **stated: Any) -> Any:
    (found,) = resolved(config, facts=facts, **stated).problems
    return found


def measured(**stated: Any) -> Envelope:
    defaults = {"device_profile": "cpu", "methods": ["sft"], "precisions": ["BF16"], "engines": ["trl"],
                "max_seq_length": 2048, "max_pass_tokens": 4096}
    return Envelope(**(defaults | stated))
