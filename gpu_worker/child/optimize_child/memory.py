"""Peak memory of the job: of the process on a CPU, of the device's allocator on a GPU; and what it is made of."""

from __future__ import annotations

import json
import os
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optimize_child.failures import JobFailure, memory_code, out_of_memory

GiB = 1 << 30
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": GiB}
LINE_BYTES = 120
SPARE = 0.9
"""Of the memory that is there, what a pass is advised to fill: allocators need some room to move."""


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


class PassMemory:
    """What passes take, so that one for which there is no room says how many tokens would have had room.

    Memory grows with the tokens of a pass. How fast is what the largest pass that succeeded took; before there was
    one, what the pass that failed had reached. On a processor each pass is announced in the file `announce`, for
    whoever finds that the kernel ended the job in it.
    """

    def __init__(self, device: str, announce: Path) -> None:
        self._device = device
        self._tokens = self._grown = 0
        self._file = os.open(announce, os.O_WRONLY | os.O_CREAT, 0o644) if device == "cpu" else None
        self._whole = whole_memory(device) if device == "cpu" else 0

    @contextmanager
    def of(self, tokens: int, *, step: int) -> Iterator[None]:
        """Watch one pass. Raises JobFailure where it ran out of memory."""
        before = used_memory(self._device)
        if self._file is not None:
            self._announce(self._file, tokens, self._whole - before, step)
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            code = memory_code(error)
            if code is None:
                raise
            raise self._failure(code, error, tokens, before, step) from error
        if tokens > self._tokens:
            self._tokens = tokens
            self._grown = peak_memory(self._device)["peak_memory_bytes"] - before

    def _announce(self, file: int, tokens: int, room: int, step: int) -> None:
        fit = tokens_that_fit(room, tokens, grown=self._grown, grown_of=self._tokens, reached=room)
        line = json.dumps({"step": step, "passTokens": tokens, "fittingTokens": fit})
        os.pwrite(file, line.ljust(LINE_BYTES).encode(), 0)

    def _failure(self, code: str, error: BaseException, tokens: int, before: int, step: int) -> JobFailure:
        room = whole_memory(self._device) - before
        reached = peak_memory(self._device)["peak_memory_bytes"] - before + wanted_bytes(error)
        fit = tokens_that_fit(room, tokens, grown=self._grown, grown_of=self._tokens, reached=reached)
        told = f" in update {step}, in a pass of {tokens:,} tokens; about {fit:,} would fit"
        return out_of_memory(code, error, told=told, fit=fit, step=step, pass_tokens=tokens, fitting_tokens=fit)


def tokens_that_fit(room: int, tokens: int, *, grown: int, grown_of: int, reached: int) -> int:
    """The tokens of a pass for which `room` bytes are enough: fewer than the `tokens` for which they were not, and no
    fewer than the `grown_of` that took `grown` bytes and succeeded. `reached` is what the pass that failed asked for.
    """
    each = grown / grown_of if grown > 0 and grown_of else max(reached, room, 1) / tokens
    return max(1, min(grown_of, tokens - 1), min(tokens - 1, int(SPARE * room / each)))


def wanted_bytes(error: BaseException) -> int:
    """What the allocation that failed asked for, as its message says; 0 where it does not."""
    found = re.search(r"[Tt]ried to allocate ([\d.]+) ?(KiB|MiB|GiB|bytes)", str(error))
    return int(float(found[1]) * UNITS.get(found[2], 1)) if found else 0


def used_memory(device: str) -> int:
    """Bytes that the job holds now."""
    if device == "cuda":
        import torch

        return int(torch.cuda.memory_allocated())
    return process_memory()["hostBytes"]


def process_memory(pid: int | str = "self") -> dict[str, int]:
    """`hostBytes` that a process holds of the machine's memory now; nothing of one that is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return {}
    return {"hostBytes": pages * os.sysconf("SC_PAGESIZE")}


def device_memory(device: str) -> dict[str, int]:
    """What this process's allocator holds of a GPU now, and what all processes together do; empty on a processor."""
    if device != "cuda":
        return {}
    import torch

    free, total = torch.cuda.mem_get_info()
    return {"allocatedBytes": torch.cuda.memory_allocated(), "reservedBytes": torch.cuda.memory_reserved(),
            "deviceUsedBytes": total - free}  # fmt: skip


def whole_memory(device: str) -> int:
    """The most that the job could hold: what other processes take of a device is theirs."""
    if device == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info()
        return int(free + torch.cuda.memory_reserved())
    limits = [_limit(Path("/sys/fs/cgroup/memory.max")), resource.getrlimit(resource.RLIMIT_AS)[0],
              os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")]  # fmt: skip
    return min(limit for limit in limits if limit > 0)


def _limit(path: Path) -> int:
    """A control group's limit; 0 where there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


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
