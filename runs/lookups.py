"""Looks up what a descriptor names: its workload, base model and datasets, the box's devices and settings."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from datasets.queries import example_set, first_answers
from optimize_site.kernel.catalog import load_catalog
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import Problem
from optimize_site.kernel.graders import DEFAULT, rules
from optimize_site.kernel.models import Device
from registry.base_model_queries import BaseModelState, base_model_state, list_base_models
from registry.models import Version, Workload
from registry.queries import resolve_version
from registry.workload_queries import get_workload, references_of
from runs.descriptor import REINFORCEMENT, RunDescriptor, method_of
from runs.facts import BaseModelFacts, DatasetFacts, DeviceFacts, Facts, WorkloadFacts
from runs.looking_up import tried
from runs.reward import ANSWER_LINE, format_term
from runs.scorer_lookups import find_scorers
from runs.warm_starts import warm_start_facts

GIB = 1024**3
ANSWERS_LOOKED_AT = 20


def facts_for(descriptor: RunDescriptor) -> Facts:
    """Everything that resolving the descriptor needs; what cannot be found becomes a problem of its field."""
    problems: list[Problem] = []
    named = descriptor.workload or descriptor.project
    path = "workload" if descriptor.workload else "project"
    workload = tried(problems, path, lambda: get_workload(named)) if named else None
    namespace = workload.namespace_id if workload else None
    config = descriptor.config
    dataset = _dataset(problems, "config.dataset", config.dataset if config else None, namespace)
    validation = config.data.validation_dataset if config and config.data else None
    catalog = load_catalog()
    found = Facts(
        catalog=catalog, workload=_workload(workload), base_model=_base_model(problems, descriptor, workload),
        dataset=dataset, validation=_dataset(problems, "config.data.validationDataset", validation, namespace),
        devices=present_devices(), allowed_engines=tuple(setting("trainer.runs.allowed-engines")),
        strict_envelopes=catalog.defaults.strict_envelopes
        or bool(setting("trainer.base-model-catalog.strict-envelopes")))
    if method_of(descriptor) in REINFORCEMENT:
        found = _with_reward(problems, descriptor, found, namespace)
    return replace(found, problems=tuple(problems))


def _with_reward(problems: list[Problem], descriptor: RunDescriptor, facts: Facts, namespace: str | None) -> Facts:
    """What only a reinforcement run names: what scores its completions, and the adapter that it starts from."""
    named = descriptor.warm_start_model_id
    start = tried(problems, "warmStartModelId", partial(warm_start_facts, named, namespace)) if named else None
    dataset = facts.dataset and replace(facts.dataset, has_answer_lines=has_answer_lines(facts.dataset.version_id))
    return find_scorers(problems, descriptor, replace(facts, warm_start=start, dataset=dataset), namespace or "")


def has_answer_lines(version_id: str) -> bool:
    """Whether the first answers of a dataset's version all end in a line such as `#### 18`."""
    answers = first_answers(Version.objects.get(pk=version_id), ANSWERS_LOOKED_AT)
    return bool(answers) and all(rules().score(ANSWER_LINE, answer, "") == 1 for answer in answers)


def offered_format(grader: str, dataset: str, workload: str) -> tuple[str, float]:
    """The format term of a run that a form holds, as its dry run offers it. What it names may not be there yet."""
    task = tried([], "", partial(get_workload, workload)) if workload else None
    found = _dataset([], "", dataset, task.namespace_id if task else None)
    grader = grader or (task.grader if task else "") or DEFAULT
    return format_term(grader, has_answer_lines=found is not None and has_answer_lines(found.version_id))


def present_devices() -> tuple[DeviceFacts, ...]:
    """The box's present devices, counted by profile, accelerators first."""
    devices = list(Device.objects.for_models().filter(is_present=True).order_by("index"))
    counts = Counter(device.profile for device in devices)
    memory = {device.profile: device.host_memory_bytes for device in devices}
    kinds = {device.profile: "cpu" if device.kind == "cpu" else "cuda" for device in devices}
    found = [DeviceFacts(profile, kinds[profile], count, memory[profile] / GIB if memory[profile] else None)
             for profile, count in counts.items()]
    return tuple(sorted(found, key=lambda device: device.kind == "cpu"))


def _workload(workload: Workload | None) -> WorkloadFacts | None:
    if workload is None:
        return None
    return WorkloadFacts(workload.pk, workload.name, workload.namespace_id, workload.grader,
                         workload.archived_at is not None, workload.namespace.archived_at is not None,
                         workload.grader_instructions)


def _dataset(problems: list[Problem], path: str, text: str | None, namespace: str | None) -> DatasetFacts | None:
    version = tried(problems, path, lambda: resolve_version("dataset", text, namespace=namespace)) if text else None
    return dataset_facts(version, stated=text or "") if version else None


def dataset_facts(version: Version, *, stated: str) -> DatasetFacts:
    """A dataset version as resolving sees it."""
    examples = example_set(version)
    return DatasetFacts(stated, version.reference, version.pk, version.content_hash, examples.num_examples,
                        version.format, examples.num_images, examples.num_tool_rows,
                        _call_answers(examples.statistics), examples.statistics.get("columns"),
                        (examples.details.get("tokenizer") or {}).get("repository", ""),
                        examples.details.get("chatTemplateSha256") or "")


def _call_answers(statistics: Mapping[str, Any]) -> int | None:
    return statistics["answers"].get("calls", 0) if "answers" in statistics else None


def _base_model(problems: list[Problem], descriptor: RunDescriptor, workload: Workload | None) -> BaseModelFacts | None:
    named = descriptor.base_model or (_base_reference(workload) if workload else "")
    if not named:
        if workload is not None:
            problems.append(Problem("baseModel", "required", f"baseModel is missing, and the workload {workload.name} "
                                    "has no base reference.", _selected_hint()))
        return None
    state = tried(problems, "baseModel", lambda: base_model_state(named))
    if state is None or state.entry is None or not state.is_allowed:
        if not any(problem.path == "baseModel" for problem in problems):
            problems.append(Problem("baseModel", "base_model_not_allowed",
                                    f"The base model {named!r} is not one that this box allows.", _allowed_hint()))
        return None
    return base_model_facts(state)


def base_model_facts(state: BaseModelState) -> BaseModelFacts:
    """An allowed base model as resolving sees it."""
    assert state.entry is not None  # noqa: S101 - the caller looked
    return BaseModelFacts(state.entry, state.phase, state.id, state.revision, state.context_length, state.is_selected,
                          state.failure if state.is_refused else "", _known_template(state))


def _known_template(state: BaseModelState) -> str:
    """The digest of the template as it was prepared; before that, the shipped one's where nothing corrects it."""
    prepared = str(state.facts.get("chatTemplateSha256") or "")
    is_corrected = state.entry is not None and bool(state.entry.chat_template_correction)
    return prepared or ("" if is_corrected else state.chat_template_sha256)


def _base_reference(workload: Workload) -> str:
    reference = references_of(workload).get("base")
    serving = reference.version.descriptor.get("servingModel", {}) if reference else {}
    return str(serving.get("baseModel", ""))


def _allowed_hint() -> str:
    allowed = [state.repository for state in list_base_models(every=True) if state.is_allowed]
    return f"Allowed here: {', '.join(allowed)}. An operator can add others to the catalog."


def _selected_hint() -> str:
    selected = [state.repository for state in list_base_models() if state.is_selected]
    return f"Selected here: {', '.join(selected)}." if selected else \
        "Select one with `./optimize base-models select MODEL`; `./optimize base-models list --all` shows them."
