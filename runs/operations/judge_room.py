"""Whether the box has slots and memory for the judges of a reward beside the run, asked before anything is admitted."""

from optimize_site.kernel.errors import OperationError, Problem
from optimize_site.kernel.judges import keeper
from runs.judges_at import no_memory_for_judges
from runs.resolve import Resolved

HINT = "Judge with a smaller model, score with a rule, a bundle or a service, or train a smaller model."


def room_problems(resolved: Resolved) -> list[Problem]:
    """What refuses a run whose judges would leave no device for it, or no memory for what both hold for certain."""
    judges = {term["judge"]["modelId"] for term in resolved.references.get("reward") or [] if "judge" in term}
    if not judges:
        return []
    execution = resolved.execution
    try:
        keeper().check_room(len(judges), beside=execution["deviceProfile"], devices=execution["gpus"])
    except OperationError as error:
        return [Problem("config.reward.terms", error.code, error.detail, error.hint)]
    reason = no_memory_for_judges(resolved)
    return [Problem("config.reward.terms", "no_memory_for_judge", reason, HINT)] if reason else []
