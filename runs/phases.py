"""Which phase of a run may follow which. This table is the only place that says so."""

from optimize_site.kernel import phases

RESUMED = "AWAITING_BASE_MODEL"
"""Where a paused run goes that is resumed."""
LOST = "AWAITING_CAPACITY"
"""Where a run goes whose job is gone without a word: it waits for a device again and resumes from its newest save."""

PHASES = phases.table("run", {
    "RESOLVING_DATASET": ["AWAITING_BASE_MODEL", "PAUSED", "CLEANING_UP"],
    "AWAITING_BASE_MODEL": ["DEPLOYING_GRADER", "AWAITING_CAPACITY", "PAUSED", "CLEANING_UP"],
    "DEPLOYING_GRADER": ["AWAITING_GRADER", "PAUSED", "CLEANING_UP"],
    "AWAITING_GRADER": ["AWAITING_CAPACITY", "PAUSED", "CLEANING_UP"],
    "AWAITING_CAPACITY": ["STARTING_JOB", "PAUSED", "CLEANING_UP"],
    "STARTING_JOB": ["QUEUED", "PREPARING", "TRAINING", "PAUSING", LOST, "RECORDING", "CLEANING_UP"],
    "QUEUED": ["PREPARING", "TRAINING", "PAUSING", LOST, "RECORDING", "CLEANING_UP"],
    "PREPARING": ["TRAINING", "PAUSING", LOST, "RECORDING", "CLEANING_UP"],
    "TRAINING": ["PAUSING", LOST, "RECORDING", "CLEANING_UP"],
    "PAUSING": ["PAUSED", LOST, "RECORDING", "CLEANING_UP"],
    "PAUSED": ["AWAITING_BASE_MODEL", "DEPLOYING_GRADER", "AWAITING_CAPACITY", "CLEANING_UP"],
    "RECORDING": ["CLEANING_UP"],
    "CLEANING_UP": ["COMPLETED", "FAILED", "CANCELLED"],
    "COMPLETED": [],
    "FAILED": [],
    "CANCELLED": [],
}, active=["STARTING_JOB", "QUEUED", "PREPARING", "TRAINING", "PAUSING"])

BEFORE_A_JOB = frozenset({"RESOLVING_DATASET", "AWAITING_BASE_MODEL", "DEPLOYING_GRADER", "AWAITING_GRADER",
                          "AWAITING_CAPACITY", "PAUSED"})
"""Open phases in which nothing holds a device, so that a cancel can end the run at once."""


def title(phase: str) -> str:
    """A phase as people read it: `AWAITING_BASE_MODEL` is `Awaiting base model`."""
    return phase.replace("_", " ").capitalize()
