"""What is said of a run whose job the kernel ended for memory. Pure."""

from collections.abc import Mapping
from typing import Any

CODE = "out_of_host_memory"


def killed_words(record: Mapping[str, Any], predicted: Mapping[str, Any] | None = None) -> tuple[str, str]:
    """Reason and next step, with the tokens that would fit where the job's last pass is known, and the judges that are
    predicted to be held beside the run."""
    reason, hint = _words(record)
    return reason, with_judges(hint, predicted)


def with_judges(hint: str, predicted: Mapping[str, Any] | None) -> str:
    """The next step, with the judges that share the machine as the run's memory was predicted; as it was where none
    does."""
    judges = (predicted or {}).get("judges") or {}
    if not judges.get("isShared"):
        return hint
    named = [judge["model"] for judge in judges["models"]]
    it = "a judge" if len(named) == 1 else "judges"
    return (f"{hint} The reward has {it} on this machine too, {' and '.join(named)}: judge with a smaller model, or "
            "score with a rule, a bundle or a service.")


def _words(record: Mapping[str, Any]) -> tuple[str, str]:
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
