"""What a run's estimates rest on, looked up: its rows' tokens, the pace of earlier runs, the device, its price."""

import os
from collections.abc import Mapping
from typing import Any

from django.db.models import Avg, FloatField, Sum
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast

from datasets.analyses.queries import find_analysis, lengths_of, status_of
from datasets.models import Analysis, ExampleSet
from optimize_site.kernel.catalog import BaseModelEntry
from optimize_site.kernel.ids import SHOWN
from registry.base_model_queries import BaseModelState, base_model_state
from runs import memory
from runs.descriptor import REINFORCEMENT
from runs.estimates import (
    Figure,
    Price,
    Rows,
    Source,
    at_most,
    capped,
    computed_pace,
    count_sequences,
    estimate,
    first_rows,
    operations_a_token,
    settings_behind,
    unknown,
)
from runs.facts import DatasetFacts, Facts
from runs.judges_at import judges_beside
from runs.models import Metric, Run
from runs.queries import measured_memory, rate_per_device_hour
from runs.resolve import Resolved
from runs.rollout_engine import chosen_sampler, with_engine
from runs.shapes import shape_at
from runs.smoke import slice_size

BYTES_A_TOKEN = 4
SMOKE_ENDS = "At most: a smoke check ends as soon as its rows are memorised."
LOOKED_AT, RUNS_AVERAGED = 20, 5
TRIMMING = frozenset({"oldest", "oldest_or_drop"})
LEAVING_OUT = TRIMMING | {"drop"}
ROWS_OF_TEXT = frozenset({"chat-jsonl-v1", "preference-jsonl-v1"})


def estimates_for(resolved: Resolved, facts: Facts) -> dict[str, Any]:
    """Updates, time, cost and peak memory of a resolved run, each figure with its origin; reads, writes nothing."""
    config, execution, smoke = resolved.config, resolved.execution, resolved.smoke
    state = base_model_state(facts.base_model.entry.repository) if facts.base_model else None
    profile = execution["deviceProfile"]
    found = estimate(
        capped(config, smoke["maxSteps"]) if smoke else config, gpus=execution["gpus"],
        rows=_prompts(config, facts.dataset, state) if resolved.method in REINFORCEMENT
        else _rows(config, facts.dataset, state, first=slice_size(smoke)),
        validation=_rows(config, facts.validation, state), pace=pace_of(resolved, facts, state),
        price=Price(rate_per_device_hour(profile), profile))
    found = at_most(found, SMOKE_ENDS) if smoke else found
    return found.document() | {"memory": _memory(resolved, facts, state),
                               "settings": settings_behind(config, execution, resolved.stated)}


# Rows ----------------------------------------------------------------------------------------------------------------


def _rows(config: Mapping[str, Any], dataset: DatasetFacts | None, state: BaseModelState | None,
          first: int | None = None) -> Rows | None:
    if dataset is None:
        return None
    whole = Rows(dataset.num_examples, _tokens(config, dataset, state))
    return _kept_rows(config, dataset, state, first) or (whole if first is None else first_rows(whole, first))


def _prompts(config: Mapping[str, Any], dataset: DatasetFacts | None, state: BaseModelState | None) -> Rows | None:
    """What a reinforcement run reads and writes of each prompt: it, once for its group, and the completions."""
    if dataset is None:
        return None
    rows, rl = _tokens(config, dataset, state), config["rlHyperparams"]
    if rows.value is None:
        return Rows(dataset.num_examples, rows)
    length, how = _completion_length(config, dataset, state)
    tokens = rows.value + dataset.num_examples * rl["groupSize"] * length
    source: Source = rows.source if how == "measured" else "computed"
    return Rows(dataset.num_examples, Figure(round(tokens), source, f"{rows.note} Each prompt is read once with "
                                             f"{rl['groupSize']} completions of {_LENGTHS[how]} {length:,.0f} tokens."))


_LENGTHS = {"measured": "about", "limit": "at most"}


def _completion_length(config: Mapping[str, Any], dataset: DatasetFacts,
                       state: BaseModelState | None) -> tuple[float, str]:
    """How long completions of these prompts are: as in the newest run over them, else as long as they may be."""
    limit = float(config["rlHyperparams"]["maxCompletionLength"])
    if state is not None:
        alike = Run.objects.filter(base_model=state.repository, config__dataset=dataset.content_hash,
                                   method__in=REINFORCEMENT, observed_step__gte=1).order_by("-created_at").first()
        mean = Metric.objects.filter(run=alike, values__completion_mean__gt=0).aggregate(
            mean=Avg(_figure("completion_mean")))["mean"] if alike else None
        if mean:
            return min(limit, mean), "measured"
    return limit, "limit"


def _kept_rows(config: Mapping[str, Any], dataset: DatasetFacts, state: BaseModelState | None,
               first: int | None) -> Rows | None:
    """The rows that a supervised run keeps under its limit, by their lengths; None where nothing measured them."""
    if state is None or "data" not in config:
        return None
    analysis, limit = find_analysis(dataset.content_hash, state), int(config["maxSeqLength"])
    if analysis is None or status_of(analysis) != "done":
        return None
    truncation, found = config["data"]["truncation"], lengths_of(analysis, first)
    kept = found.kept(limit, trimmed=truncation in TRIMMING) if truncation in LEAVING_OUT else found.cut(limit)
    note = f"{dataset.reference} has {sum(kept):,} tokens in the {len(kept):,} rows that the run reads, as its " \
           "analysis under this base model counted."
    sequences = count_sequences(kept, limit) if config["data"]["packing"] else None
    return Rows(len(kept), Figure(sum(kept), "analysis", note), sequences)


def _tokens(config: Mapping[str, Any], dataset: DatasetFacts, state: BaseModelState | None) -> Figure:
    """Tokens of all rows: as analysed, as an earlier run read them, or about so many by the file's size."""
    report = _analysis(dataset, state)
    if report.get("totalTokens"):
        return Figure(report["totalTokens"], "analysis", f"{dataset.reference} has {report['totalTokens']:,} tokens, "
                      "as its analysis under this base model counted.")
    read = _read_before(config, dataset, state)
    if read.get("totalTokens"):
        return Figure(read["totalTokens"], "measured", f"{dataset.reference} had {read['totalTokens']:,} tokens in an "
                      "earlier run.")
    size = ExampleSet.objects.filter(pk=dataset.content_hash).values_list("size_bytes", flat=True).first()
    if not size or dataset.format not in ROWS_OF_TEXT:
        return unknown(f"How many tokens {dataset.reference} has is not known.")
    return Figure(size // BYTES_A_TOKEN, "computed", f"{dataset.reference} is taken to have a token for every "
                  f"{BYTES_A_TOKEN} of its {size:,} bytes; nothing has counted them yet.")


def _analysis(dataset: DatasetFacts, state: BaseModelState | None) -> dict[str, Any]:
    if state is None or not state.revision:
        return {}
    made = Analysis.objects.filter(examples_id=dataset.content_hash, repository=state.repository,
                                   revision=state.revision).exclude(report={}).order_by("-created_at").first()
    return made.report if made is not None else {}


def _read_before(config: Mapping[str, Any], dataset: DatasetFacts, state: BaseModelState | None) -> dict[str, Any]:
    """How these rows fitted an earlier run over the base model with the same limit and truncation."""
    if state is None or "data" not in config:
        return {}
    alike = Run.objects.filter(base_model=state.repository, smoke__isnull=True,
                               config__maxSeqLength=config["maxSeqLength"],
                               config__data__truncation=config["data"]["truncation"]).exclude(data_fit=None)
    trained = alike.filter(config__dataset=dataset.content_hash).order_by("-created_at").first()
    if trained is not None:
        return dict(trained.data_fit or {})
    judged = alike.filter(config__data__validationDataset=dataset.content_hash).order_by("-created_at").first()
    return dict((judged.data_fit or {}).get("validation") or {}) if judged is not None else {}


# Pace ----------------------------------------------------------------------------------------------------------------


def pace_of(resolved: Resolved, facts: Facts, state: BaseModelState | None) -> Figure:
    """Tokens a second: as earlier runs reached, as the catalog measured, or by arithmetic."""
    if facts.base_model is None or state is None:
        return unknown("The base model is not known.")
    return (_measured_pace(resolved, state) or _catalog_pace(resolved, facts.base_model.entry)
            or _computed_pace(resolved, facts, state))


def _measured_pace(resolved: Resolved, state: BaseModelState) -> Figure | None:
    """Over the newest runs like this one; those on the same data count alone where there are any."""
    config, execution = resolved.config, resolved.execution
    alike = list(Run.objects.filter(
        base_model=state.repository, method=resolved.method, execution__deviceProfile=execution["deviceProfile"],
        execution__gpus=execution["gpus"], execution__engine=execution["engine"],
        config__model__precision=config["model"]["precision"],
        config__model__gradientCheckpointing=config["model"]["gradientCheckpointing"],
        observed_step__gte=1).only("config").order_by("-created_at")[:LOOKED_AT])
    same = [run for run in alike if run.config["dataset"] == config["dataset"]]
    chosen = (same or alike)[:RUNS_AVERAGED]
    spent = Metric.objects.filter(run__in=chosen, values__step_seconds__gt=0).aggregate(
        tokens=Sum(_figure("tokens")), seconds=Sum(_figure("step_seconds")))
    if not spent["tokens"] or not spent["seconds"]:
        return None
    named = ", ".join(run.pk[:SHOWN] for run in chosen)
    return Figure(spent["tokens"] / spent["seconds"], "measured",
                  f"Measured in {'the run' if len(chosen) == 1 else 'the runs'} {named}"
                  f"{' on this data' if same else ' on other data'}.")


def _figure(name: str) -> Cast:
    return Cast(KeyTextTransform(name, "values"), FloatField())


def _catalog_pace(resolved: Resolved, entry: BaseModelEntry) -> Figure | None:
    execution, precision = resolved.execution, resolved.config["model"]["precision"]
    for found in entry.envelopes:
        if found.tokens_per_second and found.device_profile == execution["deviceProfile"] \
                and found.gpus == execution["gpus"] and resolved.method in found.methods \
                and precision in found.precisions:
            return Figure(found.tokens_per_second, "catalog", "As the catalog's measurement states.")
    return None


def _computed_pace(resolved: Resolved, facts: Facts, state: BaseModelState) -> Figure:
    profile = facts.catalog.devices.get(resolved.execution["deviceProfile"])
    peak = profile.teraflops if profile else None
    if peak and profile and profile.kind == "cpu":
        peak = round(peak * (profile.threads or os.cpu_count() or 1), 4)
    active = state.entry.nominal_active_billions if state.entry else None
    parameters = round(active * 1e9) if active else parameters_of(state)
    again = 1.0 if profile is None or profile.kind == "cpu" else _read_again(resolved.config, facts.dataset, state)
    examples = facts.dataset.num_examples if facts.dataset else None
    return computed_pace(parameters=parameters, operations=operations_a_token(resolved.config, examples) * again,
                         teraflops=peak and peak * resolved.execution["gpus"],
                         device=resolved.execution["deviceProfile"])


def _read_again(config: Mapping[str, Any], dataset: DatasetFacts | None, state: BaseModelState) -> float:
    """How many tokens a GPU computes for each that counts: there each completion stands behind a copy of its prompt."""
    if dataset is None or "rlHyperparams" not in config:
        return 1.0
    rows, group = _tokens(config, dataset, state), int(config["rlHyperparams"]["groupSize"])
    if rows.value is None:
        return 1.0
    completions = dataset.num_examples * group * _completion_length(config, dataset, state)[0]
    return (group * rows.value + completions) / (rows.value + completions)


def parameters_of(state: BaseModelState) -> int | None:
    """How many parameters a base model has: counted when it was prepared, else as its name states."""
    nominal = state.entry.nominal_billions if state.entry else None
    return state.parameters or (round(nominal * 1e9) if nominal else None)


# Memory --------------------------------------------------------------------------------------------------------------


def _memory(resolved: Resolved, facts: Facts, state: BaseModelState | None) -> dict[str, Any]:
    """Predicted peaks, and the one that an earlier run of the recipe reached. A processor's memory is the host's."""
    profile = facts.catalog.devices.get(resolved.execution["deviceProfile"])
    kind = profile.kind if profile else "cuda"
    found = _with_judges(_predicted(resolved, facts, state, kind), resolved)
    device, host = (None, found) if kind == "cpu" else (found, memory.untold(memory.HOST_OF_GPU).document())
    return {"device": device, "host": host, "measured": _measured_peak(resolved)}


def predicted_memory(resolved: Resolved, facts: Facts) -> dict[str, Any]:
    """The predicted peak of what the run's device holds, or on processors its job, part by part; its reward's judges
    beside it."""
    state = base_model_state(facts.base_model.entry.repository) if facts.base_model else None
    profile = facts.catalog.devices.get(resolved.execution["deviceProfile"])
    return _with_judges(_predicted(resolved, facts, state, profile.kind if profile else "cuda"), resolved)


def _with_judges(found: memory.Memory, resolved: Resolved) -> dict[str, Any]:
    return found.document() | judges_beside(resolved, found.total)


def _predicted(resolved: Resolved, facts: Facts, state: BaseModelState | None, kind: str) -> memory.Memory:
    if state is None:
        return memory.untold("The base model is not known.")
    shape = shape_at(state)
    found = memory.predict(
        resolved.config, resolved.execution, kind=kind, parameters=parameters_of(state), shape=shape,
        longest_row=_longest(resolved.config, facts.dataset, state),
        trained_share=_trained_share(resolved.config, facts.dataset, state))
    if resolved.method not in REINFORCEMENT:
        return found
    choice = chosen_sampler(resolved.config, resolved.execution, found.parts, shape)
    return with_engine(found, choice, resolved.execution)


def _longest(config: Mapping[str, Any], dataset: DatasetFacts | None, state: BaseModelState | None) -> int | None:
    if dataset is None:
        return None
    found = (_analysis(dataset, state).get("lengths") or {}).get("longest") or _read_before(
        config, dataset, state).get("longest")
    return int(found) if found else None


def _trained_share(config: Mapping[str, Any], dataset: DatasetFacts | None,
                   state: BaseModelState | None) -> float | None:
    """The share of the rows' tokens that the loss policy trains, as an earlier run or the analysis counted."""
    if dataset is None or "loss" not in config:
        return None
    read, report = _read_before(config, dataset, state), _analysis(dataset, state)
    turns = "all" if config["loss"]["assistantTurns"] == "all" else "default"
    trained = read.get("trainedTokens") or (report.get("trainedTokens") or {}).get(turns)
    total = read.get("totalTokens") if read.get("trainedTokens") else report.get("totalTokens")
    return min(1.0, trained / total) if trained and total else None


def _measured_peak(resolved: Resolved) -> dict[str, Any] | None:
    alike = Run.objects.filter(
        config_hash=resolved.config_hash, execution__deviceProfile=resolved.execution["deviceProfile"],
        execution__microBatchSequences=resolved.execution["microBatchSequences"],
        observed_step__gte=1).only("id").order_by("-created_at")[:1]
    for run in alike:
        found = measured_memory(run)
        return found | {"runId": run.pk} if found else None
    return None
