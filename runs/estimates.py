"""What a run would take: updates, time and cost, each with where the figure comes from. Pure.

A figure that nothing here supports has no value, and its note says what is missing. Nothing is guessed silently.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from runs.reinforcement import arithmetic_words, reinforcement_steps
from runs.reinforcement import steps_an_epoch as prompt_steps
from runs.wording import shown_path

Source = Literal["computed", "measured", "analysis", "catalog", "unknown"]
FORWARD = 2
"""Operations for each parameter and token of one way forward."""
FLOPS_A_PARAMETER = 2 * FORWARD
"""Of one token through a frozen model with an adapter: forward, and backward to the activations."""
UTILISATION = 0.3
"""The share of a device's peak that training reaches, where nothing was measured."""
NO_DATA = "The training data is not known."
SETTINGS = ("hyperparams.training.epochs", "hyperparams.training.microBatchPerGpu",
            "hyperparams.training.gradientAccumulation", "hyperparams.training.maxSteps",
            "hyperparams.training.validationFrequencySteps", "data.packing", "data.truncation",
            "rlHyperparams.epochs", "rlHyperparams.maxSteps", "rlHyperparams.promptsPerStep", "rlHyperparams.groupSize",
            "rlHyperparams.maxCompletionLength", "rlHyperparams.klBeta", "maxSeqLength",
            "model.gradientCheckpointing")
"""The settings of a configuration that steps and time depend on."""
EXECUTION = ("deviceProfile", "gpus")
"""And those of how it is executed."""


@dataclass(frozen=True)
class Figure:
    """A number with where it comes from. `value` is None exactly where `source` is `unknown`."""

    value: float | None
    source: Source
    note: str

    def document(self) -> dict[str, Any]:
        return {"value": self.value, "source": self.source, "note": self.note}


def unknown(note: str) -> Figure:
    """A figure that cannot be told, and what is missing."""
    return Figure(None, "unknown", note)


@dataclass(frozen=True)
class Rows:
    """What is known of the rows of one dataset as the run would read them: `tokens` of one pass over all of them, and
    into how many sequences they pack, where every row's length is known."""

    examples: int
    tokens: Figure
    sequences: int | None = None


@dataclass(frozen=True)
class Price:
    """What a device costs an hour; None where nobody stated it."""

    rate_per_hour: float | None
    profile: str


@dataclass(frozen=True)
class Estimates:
    """Updates, tokens of one epoch, seconds of training and their cost."""

    steps: Figure
    tokens: Figure
    pace: Figure
    seconds: Figure
    cost: Figure

    def document(self) -> dict[str, Any]:
        return {"steps": self.steps.document(), "tokensPerEpoch": self.tokens.document(),
                "tokensPerSecond": self.pace.document(), "seconds": self.seconds.document(),
                "cost": self.cost.document()}


def estimate(config: Mapping[str, Any], *, gpus: int, rows: Rows | None, validation: Rows | None, pace: Figure,
             price: Price) -> Estimates:
    """Everything that can be told of a run before it starts."""
    steps = estimate_steps(config, rows)
    tokens = rows.tokens if rows else unknown(NO_DATA)
    seconds = estimate_seconds(config, steps=steps, rows=rows, validation=validation, pace=pace)
    return Estimates(steps, tokens, pace, seconds, estimate_cost(seconds, gpus=gpus, price=price))


def capped(config: Mapping[str, Any], max_steps: int) -> dict[str, Any]:
    """The configuration of a run that makes so many updates, however many epochs they are."""
    if "hyperparams" not in config:
        return dict(config)
    training = config["hyperparams"]["training"] | {"epochs": max_steps, "maxSteps": max_steps}
    return dict(config) | {"hyperparams": config["hyperparams"] | {"training": training}}


def at_most(found: Estimates, note: str) -> Estimates:
    """Estimates of a run that may well end sooner, which the note says."""
    figures = {name: getattr(found, name) for name in ("steps", "seconds", "cost")}
    return replace(found, **{name: replace(figure, note=f"{note} {figure.note}") for name, figure in figures.items()
                             if figure.value is not None})


def first_rows(rows: Rows, count: int) -> Rows:
    """What is known of the first rows of a dataset: their part of its tokens."""
    if count >= rows.examples:
        return rows
    tokens = rows.tokens if rows.tokens.value is None else replace(
        rows.tokens, value=round(rows.tokens.value * count / rows.examples),
        note=f"{rows.tokens.note} The first {count:,} of its {rows.examples:,} rows are taken to be like the others.")
    return Rows(count, tokens)


def estimate_steps(config: Mapping[str, Any], rows: Rows | None) -> Figure:
    """Updates of the whole run."""
    if rows is None:
        return unknown(NO_DATA)
    if "rlHyperparams" in config:
        return _reinforcement_steps(config, rows)
    training = config["hyperparams"]["training"]
    epoch = steps_an_epoch(config, rows)
    if epoch.value is None:
        return Figure(training["maxSteps"], "computed", "training.maxSteps, or fewer where the rows run out sooner.") \
            if training["maxSteps"] else epoch
    whole = int(epoch.value) * training["epochs"]
    words = f"{epoch.note}, {training['epochs']} epoch{'s' if training['epochs'] > 1 else ''}"
    if training["maxSteps"] and training["maxSteps"] < whole:
        return Figure(training["maxSteps"], epoch.source, f"{words}, ended by training.maxSteps.")
    return Figure(whole, epoch.source, f"{words}.")


def _reinforcement_steps(config: Mapping[str, Any], rows: Rows) -> Figure:
    rl = config["rlHyperparams"]
    ends = "as rlHyperparams.maxSteps states" if rl["maxSteps"] else \
        f"{rl['epochs']} epoch{'s' if rl['epochs'] > 1 else ''}"
    return Figure(reinforcement_steps(config, rows.examples), "computed",
                  f"{arithmetic_words(config, rows.examples)}, {ends}.")


def steps_an_epoch(config: Mapping[str, Any], rows: Rows) -> Figure:
    """Updates of one pass over the data. Packed rows whose lengths are not known are taken to fill their sequences."""
    if "rlHyperparams" in config:
        return Figure(prompt_steps(config, rows.examples), "computed", "")
    training, length = config["hyperparams"]["training"], config["maxSeqLength"]
    batch = training["microBatchPerGpu"] * training["gradientAccumulation"]
    if not config["data"]["packing"]:
        return Figure(_whole(rows.examples, batch), "computed", f"{rows.examples:,} rows, {batch} an update")
    if rows.sequences is not None:
        return Figure(_whole(rows.sequences, batch), "analysis",
                      f"{rows.examples:,} rows in {rows.sequences:,} sequences of {length:,} tokens, {batch} an update")
    if rows.tokens.value is None:
        return unknown(f"How many sequences the packed rows make depends on their tokens. {rows.tokens.note}")
    sequences = _whole(int(rows.tokens.value), length)
    return Figure(_whole(sequences, batch), rows.tokens.source,
                  f"about {sequences:,} sequences of {length:,} tokens, {batch} an update")


def count_sequences(lengths: Iterable[int], capacity: int) -> int:
    """Into how many sequences of `capacity` tokens rows pack, as a run packs them: longest first, each into the
    fullest sequence that has room. `room` has bit r set where a sequence has r tokens left."""
    open_ones, room, sequences = [0] * (capacity + 1), 0, 0
    for length in sorted(lengths, reverse=True):
        fitting = room >> length
        if fitting:
            left = length + (fitting & -fitting).bit_length() - 1
            open_ones[left] -= 1
            room &= ~(1 << left) if not open_ones[left] else -1
        else:
            left, sequences = capacity, sequences + 1
        open_ones[left - length] += 1
        room |= 1 << (left - length)
    return sequences


def estimate_seconds(config: Mapping[str, Any], *, steps: Figure, rows: Rows | None, validation: Rows | None,
                     pace: Figure) -> Figure:
    """Seconds of training with its validations. Loading the model and reading the rows come before."""
    if rows is None:
        return unknown(NO_DATA)
    for needed in (steps, rows.tokens, pace):
        if needed.value is None:
            return needed
    count, speed = int(steps.value or 0), float(pace.value or 0)
    tokens = training_tokens(config, steps=count, rows=rows)
    # A validation only goes forward, which is half of what an update does with a token.
    read = tokens + _validated_tokens(config, count, validation) / 2
    return Figure(round(read / speed, 1), pace.source,
                  f"{tokens:,.0f} tokens at {speed:,.0f} a second. {pace.note} {rows.tokens.note}".strip())


def training_tokens(config: Mapping[str, Any], *, steps: int, rows: Rows) -> float:
    """Tokens that so many updates read."""
    epoch = steps_an_epoch(config, rows).value or steps
    return float(rows.tokens.value or 0) * steps / max(1.0, float(epoch))


def _validated_tokens(config: Mapping[str, Any], steps: int, validation: Rows | None) -> float:
    """Tokens read by all validations: one every so many updates, and one at the end."""
    if validation is None or validation.tokens.value is None or "hyperparams" not in config:
        return 0.0
    return validation.tokens.value * _whole(steps, config["hyperparams"]["training"]["validationFrequencySteps"])


def operations_a_token(config: Mapping[str, Any], examples: int | None = None) -> float:
    """Operations for each parameter and token of the way through an update: forward and back, once more forward where
    activations are recomputed, where a reference is asked too, and where the token is sampled first."""
    more = (bool(config["model"]["gradientCheckpointing"]), "rlHyperparams" in config)
    return FLOPS_A_PARAMETER + FORWARD * (sum(more) + _reference_share(config, examples))


def _reference_share(config: Mapping[str, Any], examples: int | None) -> float:
    """How many tokens the reference reads for each that an update does: all of them at each update of a reinforcement
    run with a penalty; those of a preference run's pairs once, before the first of its epochs."""
    if config["method"] != "dpo":
        return float((config.get("rlHyperparams") or {}).get("klBeta", 0) > 0)
    training = config["hyperparams"]["training"]
    epochs = float(training["epochs"])
    if training["maxSteps"] and examples:
        epoch = steps_an_epoch(config, Rows(examples, unknown(NO_DATA))).value
        epochs = min(epochs, training["maxSteps"] / (epoch or 1))
    return 1 / max(1.0, epochs)


def computed_pace(*, parameters: int | None, operations: float, teraflops: float | None, device: str) -> Figure:
    """Tokens a second from the arithmetic alone, where nothing was measured."""
    if not parameters:
        return unknown("How many parameters the base model has is known once it is prepared.")
    if not teraflops:
        return unknown(f"No run of this base model was measured on {device}, and the catalog states no speed for it.")
    return Figure(teraflops * 1e12 * UTILISATION / (operations * parameters), "computed",
                  f"Not measured: {operations:.3g} operations for each of {parameters / 1e9:.3g} billion parameters "
                  f"and each token, at {UTILISATION:.0%} of the {teraflops:g} teraflops of {device}.")


def estimate_cost(seconds: Figure, *, gpus: int, price: Price) -> Figure:
    """Device seconds times the rate."""
    if not price.rate_per_hour:
        return unknown(f"Nobody stated what an hour of {price.profile} costs. The catalog's rate_per_device_hour, or "
                       "the setting trainer.cost.rate-per-device-hour, does.")
    if seconds.value is None:
        return unknown(seconds.note)
    devices = f"{gpus} device{'s' if gpus > 1 else ''}"
    return Figure(round(seconds.value * gpus / 3600 * price.rate_per_hour, 4), seconds.source,
                  f"{seconds.value:,.0f} seconds of {devices} at {price.rate_per_hour:g} a device hour.")


def settings_behind(config: Mapping[str, Any], execution: Mapping[str, Any],
                    stated: Collection[str]) -> list[dict[str, Any]]:
    """The settings that the estimates depend on, each with its value and whether the person stated it."""
    paths = [*(f"config.{path}" for path in SETTINGS), *(f"execution.{name}" for name in EXECUTION)]
    found = ((path, _at({"config": config, "execution": execution}, path)) for path in paths)
    return [{"setting": shown_path(tuple(path.split("."))), "value": value,
             "from": "stated" if path in stated else "default"}
            for path, value in found if value is not _ABSENT]


_ABSENT = object()


def _at(settings: Mapping[str, Any], path: str) -> Any:
    node: Any = settings
    for name in path.split("."):
        node = node.get(name, _ABSENT) if isinstance(node, Mapping) else _ABSENT
    return node


def _whole(count: int, size: int) -> int:
    return -(-count // size)
