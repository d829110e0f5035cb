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
        "reward_failed",
        "scorer_lost",
        "scorer_not_ready",
        "rollout_engine_lost",
        "rollout_engine_not_ready",
        "warm_start_invalid",
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
    if code := memory_code(error):
        return out_of_memory(code, error)
    if _is_full_disk(error):
        return JobFailure(
            "disk_full",
            "The disk that holds the job's files is full.",
            hint="Free some space on the disk of the state folder and start again.",
            error=str(error),
        )
    return JobFailure("unexpected", f"{type(error).__name__}: {_first_line(error)}", hint="The log has the details.")


def _is_full_disk(error: BaseException) -> bool:
    """Also where torch's archive writer met it: it tells of a write that failed without the system's number for it."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, RuntimeError) and "inline_container" in str(error)


def memory_code(error: BaseException) -> str | None:
    """The code of a failure for want of memory; None for any other error."""
    if type(error).__name__ == "OutOfMemoryError" or "CUDA out of memory" in str(error):
        return "out_of_device_memory"
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error)):
        return "out_of_host_memory"
    return None


def out_of_memory(code: str, error: BaseException, *, told: str = "", fit: int | None = None,
                  **evidence: Any) -> JobFailure:  # fmt: skip
    """The failure of a job that ran out of memory: `told` says where, `fit` is how many tokens a pass may hold."""
    what = "The device" if code == "out_of_device_memory" else "The machine"
    lower = "Lower execution.microBatchSequences or config.maxSeqLength"
    target = f" so that no pass holds more than about {fit:,} tokens" if fit else ""
    others = "turn on model.gradientCheckpointing, set model.precision to INT4, or train a smaller base model"
    return JobFailure(code, f"{what} ran out of memory{told}.", hint=f"{lower}{target}, {others}.",
                      error=_first_line(error), **evidence)  # fmt: skip


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:500]
