"""Peak memory of the job: of the process on a CPU, of the device's allocator on a GPU."""

from __future__ import annotations

import resource


def peak_memory(device: str) -> dict[str, int]:
    """Bytes at their highest since the job began."""
    if device == "cuda":
        import torch

        return {
            "peak_memory_bytes": torch.cuda.max_memory_allocated(),
            "peak_memory_reserved_bytes": torch.cuda.max_memory_reserved(),
        }
    return {"peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
