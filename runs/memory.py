"""The peak memory of a supervised run, part by part, from the model's shape and the settings. Pure.

docs/estimates.md explains the formula. What it cannot tell it leaves out and says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runs.estimates import Source

GIB = 1024**3
FP32 = 4
WEIGHT_BYTES = {("cuda", "BF16"): 2.0, ("cpu", "BF16"): 4.0, ("cuda", "INT4"): 0.5625, ("cpu", "INT4"): 0.5625}
"""Bytes of one weight of the layers: a processor computes bf16 weights in fp32; nf4 keeps a scale every 64 weights."""
COMPUTE_BYTES = {"cuda": 2, "cpu": 4}
MOMENTS = 2
KEPT_TWICE = {"cuda": 1, "cpu": 2}
"""On a processor the way back and the allocator took as much again as the layers keep; measured."""
HEAD_TILE = 32_768
"""Entries of the vocabulary that the output head scores at once."""
HEAD_COPIES = 8
"""How often the head holds a trained token's tile on its way forward and back; measured."""
CHECKED_ROWS = 2
"""Rows whose loss is computed once more the plain way at the start, which scores their every position."""
LIBRARIES = round(0.45 * GIB)
"""A job's process before it loads anything, measured."""
PARTS = ("weights", "adapter", "gradients", "optimizer", "activations")
HOST_OF_GPU = "What a job on a GPU takes of the host's memory was not measured."


@dataclass(frozen=True)
class Shape:
    """A decoder's dimensions. `query` and `key` are the widths of all query heads and of all key heads."""

    layers: int
    hidden: int
    intermediate: int
    query: int
    key: int
    vocabulary: int
    is_tied: bool

    @property
    def adapted_widths(self) -> int:
        """Inputs plus outputs of one layer's linear modules: what one unit of an adapter's rank covers in it."""
        attention = (self.hidden + self.query) * 2 + (self.hidden + self.key) * 2
        return attention + 3 * (self.hidden + self.intermediate)

    @property
    def kept_a_token(self) -> int:
        """Numbers that one layer keeps of one token for the way back.

        The inputs of both norms and what they give out; queries, keys, values and the attention's answer; the gate
        before and after its activation, the other half, and their product.
        """
        return 4 * self.hidden + 2 * self.query + 2 * self.key + 4 * self.intermediate

    @property
    def embeddings(self) -> int:
        return self.vocabulary * self.hidden * (1 if self.is_tied else 2)


def shape_of(model_config: Mapping[str, Any]) -> Shape | None:
    """The shape that a model's config.json states; None for a mixture of experts and where a dimension is missing."""
    text = model_config.get("text_config") or model_config
    if any(text.get(name) for name in ("num_experts", "num_local_experts", "n_routed_experts")):
        return None
    try:
        heads, hidden = int(text["num_attention_heads"]), int(text["hidden_size"])
        width = int(text.get("head_dim") or hidden // heads)
        return Shape(layers=int(text["num_hidden_layers"]), hidden=hidden, intermediate=int(text["intermediate_size"]),
                     query=heads * width, key=int(text.get("num_key_value_heads") or heads) * width,
                     vocabulary=int(text["vocab_size"]), is_tied=bool(text.get("tie_word_embeddings", True)))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


@dataclass(frozen=True)
class Memory:
    """Predicted peak bytes by part; a part that cannot be told is None, and so is the whole."""

    parts: Mapping[str, int | None]
    source: Source
    note: str

    @property
    def total(self) -> int | None:
        known = [size for size in self.parts.values() if size is not None]
        return sum(known) if len(known) == len(self.parts) else None

    def document(self) -> dict[str, Any]:
        return {"bytes": self.total, "parts": dict(self.parts), "source": self.source, "note": self.note}


def untold(why: str) -> Memory:
    """No part can be told, and why."""
    return Memory(dict.fromkeys(PARTS), "unknown", why)


def predict(config: Mapping[str, Any], execution: Mapping[str, Any], *, kind: str, parameters: int | None,
            shape: Shape | None, longest_row: int | None, trained_share: float | None = None) -> Memory:
    """What a device holds at the peak of an update; on a processor that is the job's own memory."""
    precision = config["model"]["precision"]
    adapter = adapter_parameters(config, shape)
    parts: dict[str, int | None] = {
        "weights": _weights(parameters, shape, kind, precision),
        "adapter": None if adapter is None else adapter * FP32,
        "gradients": None if adapter is None else adapter * FP32,
        "optimizer": None if adapter is None else adapter * FP32 * MOMENTS,
        "activations": _activations(config, execution, shape, kind, longest_row, trained_share)}
    if kind == "cpu":
        parts["libraries"] = LIBRARIES
    source: Source = "unknown" if None in parts.values() else "computed"
    return Memory(parts, source, _note(config, shape, kind, longest_row, trained_share))


def adapter_parameters(config: Mapping[str, Any], shape: Shape | None) -> int | None:
    """Trained parameters where every linear module of the layers is adapted, which is the most there can be."""
    return None if shape is None else config["hyperparams"]["lora"]["rank"] * shape.adapted_widths * shape.layers


def largest_pass(config: Mapping[str, Any], execution: Mapping[str, Any], longest_row: int | None) -> tuple[int, int]:
    """The most sequences one pass can carry, and the length of each: the longest row's, else the limit."""
    sequences = config["hyperparams"]["training"]["microBatchPerGpu"]
    if execution.get("microBatchSequences"):
        sequences = min(sequences, execution["microBatchSequences"])
    limit = config["maxSeqLength"]
    length = limit if longest_row is None or config["data"]["packing"] else min(limit, longest_row)
    return int(sequences), int(length)


def _weights(parameters: int | None, shape: Shape | None, kind: str, precision: str) -> int | None:
    if parameters is None:
        return None
    if precision != "INT4":
        return round(parameters * WEIGHT_BYTES[kind, precision])
    if shape is None:
        return None
    whole = min(parameters, shape.embeddings)
    return round((parameters - whole) * WEIGHT_BYTES[kind, precision]) + whole * COMPUTE_BYTES[kind]


def _activations(config: Mapping[str, Any], execution: Mapping[str, Any], shape: Shape | None, kind: str,
                 longest_row: int | None, trained_share: float | None) -> int | None:
    """What one pass keeps for its way back and its head holds of the trained tokens; or what the start check holds."""
    if shape is None:
        return None
    sequences, length = largest_pass(config, execution, longest_row)
    kept = shape.kept_a_token * shape.layers
    if config["model"]["gradientCheckpointing"]:
        kept = shape.hidden * shape.layers + shape.kept_a_token
    head = HEAD_COPIES * min(shape.vocabulary, HEAD_TILE) * FP32
    trained = 1.0 if trained_share is None else trained_share
    update = sequences * length * (kept * COMPUTE_BYTES[kind] * KEPT_TWICE[kind] + trained * head)
    return round(max(update, min(sequences, CHECKED_ROWS) * length * head))


def _note(config: Mapping[str, Any], shape: Shape | None, kind: str, longest_row: int | None,
          trained_share: float | None) -> str:
    if shape is None:
        return "The model's dimensions are known once it is prepared; those of a mixture of experts are not computed."
    words = ["The most that the settings allow: passes that share nothing"]
    if trained_share is None:
        words.append("every token trained")
    if config["hyperparams"]["lora"]["targetModules"] != "default":
        words.append("every linear module adapted")
    if longest_row is None:
        words.append("every row as long as maxSeqLength")
    measured = " Not measured on GPUs; the driver's own memory comes on top." if kind == "cuda" else ""
    return f"{', '.join(words)}.{measured}"
