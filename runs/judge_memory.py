"""What the judges of a reward hold while a run trains, and whether they and the run find room. Pure.

A judge answers: it holds its weights, its adapter, and the keys and values of what it reads and says, of as many
answers side by side as it is asked. docs/estimates.md explains the figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs.memory import CHOICE_BYTES, COMPUTE_BYTES, LIBRARIES, WEIGHT_BYTES, Shape

SIDE_BY_SIDE = 16
"""How many answers a judge reads at once; its plan says the same."""
FRAME_TOKENS = 96
"""What a judge reads beside its instructions, the prompt and the answer: the JSON around them and its template."""
CHARACTERS_A_TOKEN = 4
CERTAIN = ("weights", "adapter", "gradients", "optimizer", "libraries")
"""Parts that are held for certain; what a pass holds is the most that the settings allow."""


@dataclass(frozen=True)
class JudgeMemory:
    """One judge's predicted bytes, part by part; a part that cannot be told is None, and so is the whole."""

    model: str
    parts: Mapping[str, int | None]

    @property
    def total(self) -> int | None:
        return total_of(self.parts)

    def document(self) -> dict[str, Any]:
        return {"model": self.model, "bytes": self.total, "parts": dict(self.parts)}


def total_of(parts: Mapping[str, int | None]) -> int | None:
    """The sum, where every part is known."""
    known = [size for size in parts.values() if size is not None]
    return sum(known) if len(known) == len(parts) else None


def certain_of(parts: Mapping[str, int | None]) -> int:
    """The bytes that are held whatever a pass holds, as far as they are known."""
    return sum(parts.get(name) or 0 for name in CERTAIN)


def read_tokens(*, longest: int, instructions: str, answer: int, context: int | None) -> int:
    """The tokens of one answer that is judged, its prompt and its verdict, at most; the judge's context ends them."""
    tokens = longest + len(instructions) // CHARACTERS_A_TOKEN + FRAME_TOKENS + answer
    return tokens if context is None else min(tokens, context)


def predict_judge(model: str, *, kind: str, parameters: int | None, shape: Shape | None, adapter: int, tokens: int,
                  answers: int) -> JudgeMemory:
    """What a judge holds at most while it judges `answers` answers of `tokens` tokens each, so many of them at once as
    it reads side by side."""
    at_once = min(SIDE_BY_SIDE, answers)
    cache = None if shape is None else at_once * (
        tokens * shape.layers * 2 * shape.key * COMPUTE_BYTES[kind] + shape.vocabulary * CHOICE_BYTES)
    parts = {"weights": None if parameters is None else round(parameters * WEIGHT_BYTES[kind, "BF16"]),
             "adapter": adapter, "cache": cache}
    return JudgeMemory(model, parts | ({"libraries": LIBRARIES} if kind == "cpu" else {}))


@dataclass(frozen=True)
class Room:
    """Where a run's judges stand and what is there: `memory` is what one device of the profile has, or of processors
    the machine; `is_shared` says that the run's own job is held there too."""

    profile: str
    kind: str
    memory: int
    is_shared: bool


def judges_document(judges: Sequence[JudgeMemory], room: Room, run_bytes: int | None) -> dict[str, Any]:
    """The judges beside the prediction of the run's own memory; `together` is the sum where both are held in one."""
    held = total_of({judge.model: judge.total for judge in judges})
    together = held + run_bytes if room.is_shared and held is not None and run_bytes is not None else None
    return {"profile": room.profile, "isShared": room.is_shared, "bytes": held, "together": together,
            "memory": room.memory or None, "models": [judge.document() for judge in judges]}
