"""What is said of a job that ended without a word of its own, whichever kind of work it was for."""

from typing import Any

from optimize_site.kernel.work import Ending

STALLED, LOST = "job_stalled", "job_lost"


def stall_words(ending: Ending) -> tuple[str, str]:
    """Of a job that stopped getting on: what it did, to follow its name, and what to do about it."""
    found: dict[str, Any] = ending.exit["stalled"]
    said = f"gave no sign of getting on for {_spelled(float(found['silentSeconds']))} and was ended"
    if "stacks" in found:
        return said, "The stacks of its threads, in the evidence, show what it was at. If it was at work, raise " \
            "trainer.jobs.stalled-seconds."
    return said, f"What its threads were at could not be read: {found['noStacks']}. If it was at work, raise " \
        "trainer.jobs.stalled-seconds."


def loss_words(ending: Ending, times: int) -> tuple[str, str, str]:
    """Code, reason and next step for work whose job was lost so often that it is not tried again."""
    if ending.is_stall:
        said, hint = stall_words(ending)
        return STALLED, f"Its job was lost {times} time{'' if times == 1 else 's'}; the last one {said}.", hint
    return LOST, f"Its job ended {times} times without saying why. {ending.last_words[-300:]}".strip(), \
        "The attempt's log has more; is there enough memory?"


def _spelled(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 60 and seconds % 60 == 0 else f"{seconds:g} seconds"
