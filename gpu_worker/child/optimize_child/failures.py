"""The one way a job says that it cannot go on: a stable code, a sentence with the values, and what to change."""

from __future__ import annotations

import errno
from typing import Any

CODES = frozenset(
    {
        "bad_row",
        "row_too_long",
        "nothing_to_train",
        "no_target_modules",
        "non_finite_loss",
        "non_finite_gradient",
        "non_finite_weights",
        "reference_check_failed",
        "unsupported_setting",
        "out_of_host_memory",
        "out_of_device_memory",
        "disk_full",
        "base_model_missing",
        "base_model_refused",
        "base_model_unreachable",
        "snapshot_invalid",
        "data_error",
        "unexpected",
    }
)


class JobFailure(Exception):
    """The job cannot succeed as planned. `code` is stable, `reason` is one sentence, `hint` says what to change."""

    def __init__(self, code: str, reason: str, *, hint: str = "", **evidence: Any) -> None:
        if code not in CODES:
            raise ValueError(f"{code} is not a failure code")
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.hint = hint
        self.evidence = evidence


class Stopped(Exception):
    """The job was asked to leave, or its control file says that nobody watches it any more."""

    def __init__(self, reason: str, step: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.step = step


def failure_from(error: BaseException) -> JobFailure:
    """The failure to report for any exception: the ones with a known remedy by name, the rest as `unexpected`."""
    if isinstance(error, JobFailure):
        return error
    if isinstance(error, MemoryError):
        return _out_of_host_memory(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return JobFailure(
            "disk_full",
            "The disk that holds the job's files is full.",
            hint="Free some space on the disk of the state folder and start again.",
            error=str(error),
        )
    if _is_device_memory(error):
        return JobFailure(
            "out_of_device_memory",
            "The device ran out of memory.",
            hint="Lower execution.microBatchSequences or config.maxSeqLength, or turn on model.gradientCheckpointing.",
            error=_first_line(error),
        )
    if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
        return _out_of_host_memory(error)
    return JobFailure("unexpected", f"{type(error).__name__}: {_first_line(error)}", hint="The log has the details.")


def _out_of_host_memory(error: BaseException) -> JobFailure:
    return JobFailure(
        "out_of_host_memory",
        "The machine ran out of memory.",
        hint="Lower execution.microBatchSequences or config.maxSeqLength, or train a smaller base model.",
        error=_first_line(error),
    )


def _is_device_memory(error: BaseException) -> bool:
    return type(error).__name__ == "OutOfMemoryError" or "CUDA out of memory" in str(error)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]
