"""Whether the box has room for the judges of a reward beside the run, asked before anything is admitted."""

from optimize_site.kernel.errors import OperationError, Problem
from optimize_site.kernel.judges import keeper
from runs.resolve import Resolved


def room_problems(resolved: Resolved) -> list[Problem]:
    """What refuses a run whose judges would leave no device for it."""
    judges = {term["judge"]["modelId"] for term in resolved.references.get("reward") or [] if "judge" in term}
    if not judges:
        return []
    execution = resolved.execution
    try:
        keeper().check_room(len(judges), beside=execution["deviceProfile"], devices=execution["gpus"])
    except OperationError as error:
        return [Problem("config.reward.terms", error.code, error.detail, error.hint)]
    return []
