"""Which phase of work that asks a model may follow which. The ends can be left by a retry only."""

from optimize_site.kernel.phases import PhaseTable, table

AWAITING_BASE_MODEL, AWAITING_CAPACITY = "AWAITING_BASE_MODEL", "AWAITING_CAPACITY"
STARTING_JOB, EVALUATING = "STARTING_JOB", "EVALUATING"
COMPLETED, FAILED, CANCELLED = "COMPLETED", "FAILED", "CANCELLED"
ENDS = (COMPLETED, FAILED, CANCELLED)


def asking_table(kind: str) -> PhaseTable:
    """The table of one kind of work that asks a model."""
    return table(kind, {
        AWAITING_BASE_MODEL: (AWAITING_CAPACITY, *ENDS),
        AWAITING_CAPACITY: (STARTING_JOB, AWAITING_BASE_MODEL, *ENDS),
        STARTING_JOB: (EVALUATING, AWAITING_CAPACITY, *ENDS),
        EVALUATING: (AWAITING_CAPACITY, *ENDS),
        COMPLETED: (AWAITING_BASE_MODEL,),
        FAILED: (AWAITING_BASE_MODEL,),
        CANCELLED: (AWAITING_BASE_MODEL,),
    }, active=(STARTING_JOB, EVALUATING), resting=ENDS)


TRIAL = asking_table("trial")
READY, RELEASED = "READY", "RELEASED"
JUDGE = table("judge", {
    AWAITING_BASE_MODEL: (AWAITING_CAPACITY, RELEASED, FAILED),
    AWAITING_CAPACITY: (STARTING_JOB, AWAITING_BASE_MODEL, RELEASED, FAILED),
    STARTING_JOB: (READY, AWAITING_CAPACITY, RELEASED, FAILED),
    READY: (AWAITING_CAPACITY, RELEASED, FAILED),
    RELEASED: (),
    FAILED: (),
}, active=(STARTING_JOB, READY))
"""A judge is released when its holder wants it no more, and waits again where its job was lost."""
JUDGE_STATES = {AWAITING_BASE_MODEL: "waiting", AWAITING_CAPACITY: "waiting", STARTING_JOB: "starting",
                READY: "answering", RELEASED: "released", FAILED: "failed"}
RESTING = "resting"
"""The state of a judge that was given back because its run is paused."""
QUEUED = (AWAITING_BASE_MODEL, AWAITING_CAPACITY)
OPEN = TRIAL.open
"""Phases of unfinished work."""
