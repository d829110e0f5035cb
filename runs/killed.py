"""What is said of a run whose job the kernel ended for memory. Pure."""

from collections.abc import Mapping
from typing import Any

CODE = "out_of_host_memory"


def killed_words(record: Mapping[str, Any]) -> tuple[str, str]:
    """Reason and next step, with the tokens that would fit where the job's last pass is known."""
    last = record.get("pass")
    if not last:
        return "This machine ran out of memory and the run's job was ended by its kernel.", _hint("")
    fit = f"{last['fittingTokens']:,}"
    return (f"This machine ran out of memory in update {last['step']}, in a pass of {last['passTokens']:,} tokens, and "
            f"the run's job was ended by its kernel; about {fit} would fit.",
            _hint(f" so that no pass holds more than about {fit} tokens"))


def _hint(target: str) -> str:
    return (f"Lower execution.microBatchSequences or config.maxSeqLength{target}, or turn on "
            "model.gradientCheckpointing.")
