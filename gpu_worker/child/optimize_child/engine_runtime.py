"""What a job really runs with, told part by part as it is known: what setting up changed, the model, memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from peft.tuners.tuners_utils import BaseTunerLayer

from optimize_child.events import EventLog
from optimize_child.memory import device_memory, process_memory

TRAINER, ROLLOUT_ENGINE = "trainer", "rolloutEngine"
AFTER_LOAD, AFTER_ROLLOUT, AFTER_STEP = "afterLoad", "afterFirstRollout", "afterFirstStep"
WRAPPED = "base_model.model."
"""What PEFT puts before the names of a model's modules."""


class RuntimeRecord:
    """Tells the parts of one attempt's record; each moment of memory once."""

    def __init__(self, events: EventLog, device: str) -> None:
        self._events, self._device = events, device
        self._moments: set[str] = set()
        self.engine_pid: int | None = None
        """The process of the rollout engine, where it has one of its own."""

    def tell(self, **parts: Any) -> None:
        """Parts of the record: `trainer`, `model`, `rolloutEngine`; a later one takes the earlier one's place."""
        self._events.emit("engine_runtime", **parts)

    def moment(self, name: str) -> None:
        """What each process takes now, where this moment is the first of its name."""
        if name in self._moments:
            return
        self._moments.add(name)
        readings = [{"process": TRAINER, "moment": name, **process_memory(), **device_memory(self._device)}]
        if self.engine_pid:
            readings.append({"process": ROLLOUT_ENGINE, "moment": name, **process_memory(self.engine_pid)})
        self._events.emit("engine_runtime", memory=readings)


def model_part(model: Any) -> dict[str, Any]:
    """How many parameters of which type the model has, how many are trained, and where the adapter lies."""
    counts: Counter[str] = Counter()
    trainable = 0
    for parameter in model.parameters():
        counts[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
        trainable += parameter.numel() if parameter.requires_grad else 0
    wrapped = [name for name, module in model.named_modules() if isinstance(module, BaseTunerLayer)]
    return {"parametersByType": dict(sorted(counts.items())), "trainableParameters": trainable,
            "adaptedModules": [name.removeprefix(WRAPPED) for name in wrapped]}  # fmt: skip


def changed_by_setup(stated: Mapping[str, Any], stands: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings that stand otherwise than they were stated, each with its value before and after."""
    before, after = _plain(stated), _plain(stands)
    return {name: {"before": before[name], "after": after.get(name)} for name in before
            if before[name] != after.get(name)}  # fmt: skip


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(dict(settings), default=str))
    return found
