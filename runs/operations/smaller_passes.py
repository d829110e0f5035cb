"""Out of device memory: once more with half the sequences a pass, where nobody stated how many a pass takes."""

from collections.abc import Mapping
from typing import Any

from runs.models import Run

OUT_OF_DEVICE_MEMORY = "out_of_device_memory"
PASS_FIELDS = ("execution.microBatchSequences", "config.hyperparams.training.microBatchPerGpu")


def halved_execution(run: Run) -> dict[str, Any] | None:
    """The execution settings with the pass halved; None where it was stated, halved before, or cannot be less.

    The update is the same and so is the configuration's hash: passes are summed into it, however many there are.
    """
    if any(path in run.stated for path in PASS_FIELDS) or run.execution.get("microBatchSequences"):
        return None
    size, least = _pass_of(run.config)
    return dict(run.execution) | {"microBatchSequences": size // 2} if size > least else None


def halved_warning(execution: Mapping[str, Any]) -> dict[str, str]:
    """What the run says of it."""
    size = execution["microBatchSequences"]
    return {"code": "pass_halved", "message": f"The device ran out of memory; the run was started again with at most "
            f"{size} sequence{'' if size == 1 else 's'} a pass (execution.microBatchSequences). Its updates are the "
            "same."}


def _pass_of(config: Mapping[str, Any]) -> tuple[int, int]:
    """How many sequences a pass takes, of a reinforcement step a prompt's whole group; and the fewest it can take."""
    if "rlHyperparams" in config:
        return int(config["rlHyperparams"]["groupSize"]), 1
    each = 2 if config["method"] == "dpo" else 1
    return each * int(config["hyperparams"]["training"]["microBatchPerGpu"]), each
