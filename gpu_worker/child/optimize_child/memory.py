"""Peak memory of the job: of the process on a CPU, of the device's allocator on a GPU; and what it is made of."""

from __future__ import annotations

import resource
from typing import Any


def peak_memory(device: str) -> dict[str, int]:
    """Bytes at their highest since the job began."""
    if device == "cuda":
        import torch

        return {
            "peak_memory_bytes": torch.cuda.max_memory_allocated(),
            "peak_memory_reserved_bytes": torch.cuda.max_memory_reserved(),
        }
    return {"peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


class MemorySplit:
    """Parts the peak of an update that went higher than all before it; the other updates have nothing to add.

    On a GPU what the model and its training state do not hold of the allocated peak are activations; what the
    allocator reserved beyond it and what the driver holds beyond that have parts of their own. Of a process on a CPU
    the rest cannot be told apart: activations and libraries together.
    """

    def __init__(self) -> None:
        self._highest = 0

    def of(self, peaks: dict[str, int], model: Any, optimizer: Any) -> dict[str, int]:
        """`memory_<part>_bytes` of each part of what the job takes then; empty where this update set no new peak."""
        peak = peaks["peak_memory_bytes"]
        if peak <= self._highest:
            return {}
        self._highest = peak
        held = _held(model, optimizer)
        rest = max(0, peak - sum(held.values()))
        if "peak_memory_reserved_bytes" not in peaks:
            return _named(held | {"rest": rest})
        reserved = peaks["peak_memory_reserved_bytes"]
        return _named(held | {"activations": rest, "allocator": reserved - peak, "driver": _driver_bytes()})


def _held(model: Any, optimizer: Any) -> dict[str, int]:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    moments = [value for state in optimizer.state.values() for value in state.values() if hasattr(value, "nbytes")]
    adapter = _size(trained)
    return {
        "weights": _size([*frozen, *model.buffers()]),
        "adapter": adapter,
        "gradients": adapter,
        "optimizer": _size(moments),
    }


def _size(tensors: Any) -> int:
    return sum(int(tensor.nbytes) for tensor in tensors)


def _driver_bytes() -> int:
    """What the device holds beyond what this process's allocator reserved; another process's share counts too."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return max(0, total - free - torch.cuda.memory_reserved())


def _named(parts: dict[str, int]) -> dict[str, int]:
    return {f"memory_{part}_bytes": size for part, size in parts.items()}
