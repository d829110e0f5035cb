"""Who samples the completions of a reinforcement run, and how much of its device that takes. Pure.

The trainer's own model samples everywhere. Where vLLM is installed and the run has a GPU, vLLM does: its engine stands
beside the trainer on the one device, so each gets a share of the memory that leaves the other enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

MODES = ("auto", "own", "vllm")
RANKS = (8, 16, 32, 64, 128, 256)
"""The ranks vLLM lays its buffers of an adapter out for here; the job's own engine has the same."""
MOST_RANK = RANKS[-1]
AT_ONCE = 256
"""Completions that vLLM samples side by side at most."""
GIB = 1024**3
ENGINE_OWN = 2 * GIB
"""What vLLM holds beside weights, adapter, keys and values: its passes' buffers and the driver's part. Not measured."""
TRAINER_MORE = 1.15
TRAINER_OWN = GIB
"""What training takes beyond its prediction: the allocator's unused parts, and the driver's. Not measured."""
MOST_SHARE = 0.9
MEMORY_UNKNOWN = "vllm_memory_unknown"


@dataclass(frozen=True)
class RolloutBox:
    """What the box says of sampling: its settings, and the version of vLLM that is installed ("" where none is)."""

    mode: str = "auto"
    version: str = ""
    python: str = ""
    memory_share: float = 0.0
    """The share that the box states; 0 derives it."""


@dataclass(frozen=True)
class Room:
    """A device, and what a run puts on it: bytes of all of it and of the trainer's parts, of the weights alone, of one
    token's keys and values, and of an adapter for each of its rank; None where it is not known."""

    kind: str
    device: int | None
    trainer: int | None
    weights: int | None
    kept_a_token: int | None
    kept_a_rank: int | None = 0


@dataclass(frozen=True)
class SamplerChoice:
    """Who samples, with the code and the sentence of what speaks against vLLM where that is not it."""

    kind: Literal["own", "vllm"]
    code: str = ""
    reason: str = ""
    hint: str = ""
    memory_share: float = 0.0
    at_once: int = 0

    def part(self, box: RolloutBox) -> dict[str, Any]:
        """What the job is told."""
        if self.kind == "own":
            return {"kind": "own", "reason": self.reason}
        return {"kind": "vllm", "python": box.python, "memory_share": self.memory_share, "at_once": self.at_once,
                "required": box.mode == "vllm"}


def choose_sampler(box: RolloutBox, config: Mapping[str, Any], room: Room) -> SamplerChoice:
    """vLLM where the box's settings, the run and the device's memory let it, else the trainer's own model."""
    against = _against(box, config, room)
    if against is not None:
        return against
    rl = config["rlHyperparams"]
    at_once = min(AT_ONCE, int(rl["promptsPerStep"]) * int(rl["groupSize"]))
    if box.memory_share:
        return SamplerChoice("vllm", memory_share=box.memory_share, at_once=at_once)
    return _derived(room, config, at_once)


def _against(box: RolloutBox, config: Mapping[str, Any], room: Room) -> SamplerChoice | None:
    """What speaks against vLLM before its memory is looked at."""
    rank = int(config["rlHyperparams"]["lora"]["rank"])
    if box.mode not in MODES:
        return SamplerChoice("own", "unknown_sampler", f"trainer.rollouts.sampler is {box.mode!r}; it is one of "
                             f"{', '.join(MODES)}.", "Correct it in the box's settings.toml.")
    if box.mode == "own":
        return SamplerChoice("own", "", "trainer.rollouts.sampler is own.")
    if not 0 <= box.memory_share <= 1:
        return SamplerChoice("own", "memory_share_out_of_range", f"trainer.rollouts.memory-share is "
                             f"{box.memory_share:g}; a share is between 0 and 1.", "Correct it in the box's "
                             "settings.toml, or leave it out to have it derived.")
    if box.mode == "auto" and room.kind != "cuda":
        return SamplerChoice("own", "", "The run trains on processors.")
    if not box.version:
        where = f"what {box.python} imports from" if box.python else "the job environment"
        return SamplerChoice("own", "vllm_not_installed", f"vLLM is not installed in {where}.", "Install the GPU set "
                             "of the job environment, or name another interpreter in trainer.rollouts.vllm-python.")
    if config["model"]["precision"] == "INT4":
        return SamplerChoice("own", "vllm_not_quantized", "config.model.precision is INT4; vLLM would sample from "
                             "other weights than the quantized ones that are trained.", "Train in BF16.")
    if rank > MOST_RANK:
        return SamplerChoice("own", "vllm_rank_too_large", f"lora.rank is {rank}; vLLM takes adapters of {MOST_RANK} "
                             "at most.", f"State a rank of at most {MOST_RANK}.")
    return None


def _derived(room: Room, config: Mapping[str, Any], at_once: int) -> SamplerChoice:
    """What the engine can use and the trainer leaves; refused where that is not enough for a single completion."""
    if room.device is None or room.trainer is None or room.weights is None or room.kept_a_token is None \
            or room.kept_a_rank is None:
        return SamplerChoice("own", MEMORY_UNKNOWN, "How much memory training takes on this device is not "
                             "known, so none can be set aside for vLLM.", "State trainer.rollouts.memory-share.")
    one = int(config["maxSeqLength"]) * room.kept_a_token
    rank = next(rank for rank in RANKS if rank >= int(config["rlHyperparams"]["lora"]["rank"]))
    least = room.weights + rank * room.kept_a_rank + ENGINE_OWN + one
    left = room.device - round(TRAINER_MORE * room.trainer) - TRAINER_OWN
    if left < least:
        return SamplerChoice("own", "no_room_for_vllm", f"Training takes about {room.trainer / GIB:.1f} of the "
                             f"device's {room.device / GIB:.1f} GiB, and vLLM needs {least / GIB:.1f} GiB beside it.",
                             "Lower execution.microBatchSequences or config.maxSeqLength, or turn on "
                             "model.gradientCheckpointing.")
    share = min(left, least + (at_once - 1) * one) / room.device
    return SamplerChoice("vllm", memory_share=min(MOST_SHARE, int(share * 1000) / 1000), at_once=at_once)
