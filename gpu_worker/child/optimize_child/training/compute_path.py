"""Which way a run computes its loss, and why: the fast way where it is known to give the plain way's numbers."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

# Decoders whose attention is plain causal attention over all that came before, checked against padding in our tests.
CAUSAL_DECODERS = frozenset({"llama", "mistral", "qwen2", "qwen3", "smollm3"})

Kind = Literal["plain", "compact", "unpadded", "fused"]


class ComputePath(NamedTuple):
    """`plain` is TRL as it is. `compact` computes logits only where a token is trained. `unpadded` also leaves out the
    padding, and with `share_prefix` computes the shared beginning of a pass's rows once. `fused` is for pairs: a padded
    pass of many of them, logits of one at a time."""

    kind: Kind
    share_prefix: bool
    reason: str

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "sharePrefix": self.share_prefix, "reason": self.reason}


def choose_path(model_config: Any, *, device: str, strict: bool, dropout: float, attention: str) -> ComputePath:
    """The fastest path whose guards hold. It depends on nothing but the plan and the base model, so that every attempt
    of a run takes the same one."""
    if device != "cpu":
        return ComputePath("plain", False, "the device's own kernels already skip untrained positions")
    if strict:
        return ComputePath("compact", False, "the plan asks for bit-equality with plain TRL")
    reason = _against_unpadded(model_config, dropout, attention)
    if reason:
        return ComputePath("compact", False, reason)
    return ComputePath("unpadded", True, "plain causal attention, no dropout")


def _against_unpadded(config: Any, dropout: float, attention: str) -> str | None:
    """Why this run may not leave out the padding; None when it may."""
    if dropout > 0:
        return "dropout draws one mask for each computed position, and shared positions would share it"
    if getattr(config, "attention_dropout", 0):
        return "the model drops attention weights"
    if attention != "sdpa":
        return f"the run names the {attention} attention"
    if hasattr(config, "vision_config") or hasattr(config, "audio_config"):
        return "the model reads more than text"
    if _experts(config):
        return "a mixture of experts balances its load over the positions it computes"
    if _slides(config):
        return "the model's attention window slides"
    if config.model_type not in CAUSAL_DECODERS:
        return f"{config.model_type} is not among the architectures checked for it"
    return None


def _experts(config: Any) -> bool:
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    return any(getattr(config, name, None) for name in names)


def _slides(config: Any) -> bool:
    if "sliding_attention" in (getattr(config, "layer_types", None) or []):
        return True
    return bool(getattr(config, "sliding_window", None)) and getattr(config, "use_sliding_window", True)
