"""The peak memory of a run, part by part, from the model's shape and the settings. Pure.

docs/estimates.md explains the formula. What it cannot tell it leaves out and says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runs.estimates import Source
from runs.reinforcement import completions_a_step, sequences_a_pass

GIB = 1024**3
FP32 = 4
WEIGHT_BYTES = {("cuda", "BF16"): 2.0, ("cpu", "BF16"): 4.0, ("cuda", "INT4"): 0.5625, ("cpu", "INT4"): 0.5625}
"""Bytes of one weight of the layers: a processor computes bf16 weights in fp32; nf4 keeps a scale every 64 weights."""
COMPUTE_BYTES = {"cuda": 2, "cpu": 4}
MOMENTS = 2
KEPT_TWICE = {"cuda": 1, "cpu": 2}
"""On a processor the way back and the allocator took as much again as the layers keep; measured."""
KEPT_OF_GROUP = 1.25
"""How much more a token keeps where completions stand behind a prompt that they share; measured."""
HEAD_TILE = 32_768
"""Entries of the vocabulary that the output head scores at once."""
HEAD_COPIES = 8
"""How often the head holds a trained token's tile on its way forward and back; measured."""
WHOLE_LOGITS = 3
"""How often a head that is not computed in tiles holds logits: themselves, their log-probabilities, their gradient."""
CHECKED_ROWS = 2
"""Rows whose loss is computed once more the plain way at the start, which scores their every position."""
CHECKED_SHARE = 0.5
"""The same of a pair whose logits are held whole: that loss has no gradient, so a position takes half."""
RESCALES = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier")
"""Names under which a model's configuration says that logits are more than hidden state times head. A GPU then takes
pairs one by one, as of a model that reads more than text; the job goes by the same."""
SHARING_DECODERS = ("llama", "mistral", "qwen2", "qwen3", "smollm3")
"""Architectures of which a processor computes a prompt once for all that follows it; the job has the same list."""
LIBRARIES = round(0.45 * GIB)
"""A job's process before it loads anything, measured."""
SAMPLED_AT_ONCE = 32
"""Completions that are sampled side by side where prompts are shared; elsewhere all of an update, but for vLLM."""
ROOM = 64
"""Tokens of room that a processor's buffer of a completion's keys and values has beyond what it holds."""
CHOICE_BYTES = 24
"""What choosing a token holds of one entry of the vocabulary: its logit, its log-probability and their sums."""
PARTS = ("weights", "adapter", "gradients", "optimizer", "activations")
HOST_OF_GPU = "What a job on a GPU takes of the host's memory was not measured."


@dataclass(frozen=True)
class Shape:
    """A decoder's dimensions. `query` and `key` are the widths of all query heads and of all key heads. Where it
    `has_plain_head`, logits are hidden state times head and no more; where it `shares_prompts`, a processor computes a
    prompt once for all that follows it."""

    layers: int
    hidden: int
    intermediate: int
    query: int
    key: int
    vocabulary: int
    is_tied: bool
    has_plain_head: bool = True
    shares_prompts: bool = True

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
                     vocabulary=int(text["vocab_size"]), is_tied=bool(text.get("tie_word_embeddings", True)),
                     has_plain_head=_has_plain_head(model_config, text),
                     shares_prompts=_shares_prompts(model_config, text))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def _has_plain_head(model_config: Mapping[str, Any], text: Mapping[str, Any]) -> bool:
    return not _reads_more(model_config) and all(text.get(name) in (None, 1) for name in RESCALES)


def _shares_prompts(model_config: Mapping[str, Any], text: Mapping[str, Any]) -> bool:
    slides = "sliding_attention" in (text.get("layer_types") or ()) or \
        bool(text.get("sliding_window") and text.get("use_sliding_window", True))
    is_checked = text.get("model_type") in (None, *SHARING_DECODERS)
    return is_checked and not slides and not text.get("attention_dropout") and not _reads_more(model_config)


def _reads_more(model_config: Mapping[str, Any]) -> bool:
    return "vision_config" in model_config or "audio_config" in model_config


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
        "adapter": None if adapter is None else adapter * FP32 * _adapters(config),
        "gradients": None if adapter is None else adapter * FP32,
        "optimizer": None if adapter is None else adapter * FP32 * MOMENTS,
        "activations": _activations(config, execution, shape, kind, longest_row, trained_share)}
    if "rlHyperparams" in config:
        parts["generation"] = _generation(config, shape, kind, longest_row, parts["activations"])
    if kind == "cpu":
        parts["libraries"] = LIBRARIES
    source: Source = "unknown" if None in parts.values() else "computed"
    return Memory(parts, source, _note(config, shape, kind, longest_row, trained_share))


def adapter_parameters(config: Mapping[str, Any], shape: Shape | None) -> int | None:
    """Trained parameters where every linear module of the layers is adapted, which is the most there can be."""
    return None if shape is None else int(_lora(config)["rank"]) * shape.adapted_widths * shape.layers


def _lora(config: Mapping[str, Any]) -> Mapping[str, Any]:
    lora: Mapping[str, Any] = (config.get("hyperparams") or config["rlHyperparams"])["lora"]
    return lora


def _is_shared(config: Mapping[str, Any], shape: Shape, kind: str) -> bool:
    """Whether a prompt is computed once for all that follows it, and logits only of what is trained. Elsewhere each
    completion, or each answer, stands behind a copy of its prompt."""
    plain = not _lora(config).get("dropout") and config["model"]["attentionImplementation"] == "sdpa"
    return kind == "cpu" and shape.shares_prompts and plain


def _adapters(config: Mapping[str, Any]) -> int:
    """A run that is held to the adapter it started from keeps a copy of it."""
    rl = config.get("rlHyperparams")
    return 2 if rl and rl["klBeta"] > 0 and "warmStartConfigHash" in config else 1


def largest_pass(config: Mapping[str, Any], execution: Mapping[str, Any], longest_row: int | None,
                 kind: str = "cpu", *, fuses: bool = True) -> tuple[int, int]:
    """The most sequences one pass can carry, and the length of each: the longest row's, else the limit."""
    limit = config["maxSeqLength"]
    length = limit if longest_row is None or config["data"]["packing"] else min(limit, longest_row)
    if config["method"] == "dpo":
        return 2 * _pairs_computed(config, execution, kind == "cuda" and fuses), int(length)
    sequences = int(config["hyperparams"]["training"]["microBatchPerGpu"])
    return min(sequences, int(execution.get("microBatchSequences") or sequences)), int(length)


def _pairs_computed(config: Mapping[str, Any], execution: Mapping[str, Any], fuses: bool) -> int:
    """Pairs that are computed at once: of several in a pass, what need not keep logits and cannot fuse the loss takes
    one by one."""
    return pairs_a_pass(config, execution) if fuses or not config["preference"]["fusedLoss"] else 1


def pairs_a_pass(config: Mapping[str, Any], execution: Mapping[str, Any]) -> int:
    """The pairs of a pass. A pair is two of the sequences that `execution.microBatchSequences` allows one."""
    pairs, stated = int(config["hyperparams"]["training"]["microBatchPerGpu"]), execution.get("microBatchSequences")
    return min(pairs, max(1, int(stated) // 2)) if stated else pairs


def _scored_whole(config: Mapping[str, Any], execution: Mapping[str, Any], kind: str, tokens: int,
                  share: float, *, fuses: bool, is_shared: bool) -> float | None:
    """Of how many of a pass's tokens the head of a preference run holds whole logits: of all, where it keeps those of
    a pass (`preference.fusedLoss: false`), takes one pair on a GPU, or a processor copies prompts; of one pair's
    answers under Liger's fused loss. None where it computes them in tiles."""
    pairs, is_fused = pairs_a_pass(config, execution), config["preference"]["fusedLoss"]
    if kind == "cpu":
        return None if is_shared and (is_fused or pairs == 1) else tokens
    return tokens / pairs * max(share, CHECKED_SHARE) if fuses and is_fused and pairs > 1 else tokens


def largest_group(config: Mapping[str, Any], execution: Mapping[str, Any], longest_row: int | None,
                  *, is_shared: bool = True) -> tuple[int, int]:
    """Tokens of the prompts and of the completions of one pass: the longest prompt that leaves room stands once before
    its completions, or before each of them."""
    completions = sequences_a_pass(config, execution)
    prompt = longest_prompt(config, longest_row) * (1 if is_shared else completions)
    return prompt, int(config["rlHyperparams"]["maxCompletionLength"]) * completions


def longest_prompt(config: Mapping[str, Any], longest_row: int | None) -> int:
    """Tokens of the longest prompt: those of the longest row, where it is known, else all but its completion's."""
    room = int(config["maxSeqLength"]) - int(config["rlHyperparams"]["maxCompletionLength"])
    return room if longest_row is None else min(room, longest_row)


def _generation(config: Mapping[str, Any], shape: Shape | None, kind: str, longest_row: int | None,
                activations: int | None) -> int | None:
    """What sampling holds beyond what an update does: keys and values of all that is sampled at once, and the choice of
    the next tokens."""
    if shape is None or activations is None:
        return None
    at_once, tokens = completions_a_step(config), longest_prompt(config, longest_row)
    tokens += int(config["rlHyperparams"]["maxCompletionLength"])
    if _is_shared(config, shape, kind):
        at_once, tokens = min(SAMPLED_AT_ONCE, at_once), tokens + ROOM
    kept = tokens * shape.layers * 2 * shape.key * COMPUTE_BYTES[kind]
    return max(0, at_once * (kept + shape.vocabulary * CHOICE_BYTES) - activations)


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
    if "rlHyperparams" in config:
        is_shared = _is_shared(config, shape, kind)
        prompts, completions = largest_group(config, execution, longest_row, is_shared=is_shared)
        tokens = (prompts + completions) * (KEPT_OF_GROUP if is_shared else 1)
        return _held(config, shape, kind, tokens=round(tokens), trained=completions)
    fuses = shape.has_plain_head
    sequences, length = largest_pass(config, execution, longest_row, kind, fuses=fuses)
    share = 1.0 if trained_share is None else trained_share
    tokens = sequences * length
    scored = _scored_whole(config, execution, kind, tokens, share, fuses=fuses,
                           is_shared=_is_shared(config, shape, kind)) if config["method"] == "dpo" else None
    if scored is not None:
        kept = _held(config, shape, kind, tokens=tokens, trained=0)
        return kept + round(scored * WHOLE_LOGITS * shape.vocabulary * FP32)
    update = _held(config, shape, kind, tokens=tokens, trained=share * tokens)
    return max(update, round(min(sequences, CHECKED_ROWS) * length * _tiles(shape)))


def _held(config: Mapping[str, Any], shape: Shape, kind: str, *, tokens: int, trained: float) -> int:
    """What a pass of so many tokens, some of them trained, keeps for its way back."""
    kept = shape.kept_a_token * shape.layers
    if config["model"]["gradientCheckpointing"]:
        kept = shape.hidden * shape.layers + shape.kept_a_token
    return round(tokens * kept * COMPUTE_BYTES[kind] * KEPT_TWICE[kind] + trained * _tiles(shape))


def _tiles(shape: Shape) -> int:
    """Bytes that an output head which is computed in tiles of the vocabulary holds of one trained token."""
    return HEAD_COPIES * min(shape.vocabulary, HEAD_TILE) * FP32


def _note(config: Mapping[str, Any], shape: Shape | None, kind: str, longest_row: int | None,
          trained_share: float | None) -> str:
    if shape is None:
        return "The model's dimensions are known once it is prepared; those of a mixture of experts are not computed."
    is_sampled = "rlHyperparams" in config
    words = ["The most that the settings allow: " + ("every completion as long as it may be" if is_sampled
                                                     else "passes that share nothing")]
    if trained_share is None and not is_sampled:
        words.append("every token trained")
    if _lora(config)["targetModules"] != "default":
        words.append("every linear module adapted")
    if longest_row is None:
        words.append("a prompt that just leaves room for it" if is_sampled else "every row as long as maxSeqLength")
    measured = " Not measured on GPUs; the driver's own memory comes on top." if kind == "cuda" else ""
    return f"{', '.join(words)}.{measured}"
