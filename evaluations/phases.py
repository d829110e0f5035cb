"""Which phase of an evaluation, or of a trial, may follow which. The ends can be left by a retry only."""

from optimize_site.kernel.phases import PhaseTable, table

AWAITING_BASE_MODEL, AWAITING_CAPACITY = "AWAITING_BASE_MODEL", "AWAITING_CAPACITY"
STARTING_JOB, EVALUATING = "STARTING_JOB", "EVALUATING"
COMPLETED, FAILED, CANCELLED = "COMPLETED", "FAILED", "CANCELLED"
ENDS = (COMPLETED, FAILED, CANCELLED)


def _table(kind: str) -> PhaseTable:
    return table(kind, {
        AWAITING_BASE_MODEL: (AWAITING_CAPACITY, *ENDS),
        AWAITING_CAPACITY: (STARTING_JOB, AWAITING_BASE_MODEL, *ENDS),
        STARTING_JOB: (EVALUATING, AWAITING_CAPACITY, *ENDS),
        EVALUATING: (AWAITING_CAPACITY, *ENDS),
        COMPLETED: (AWAITING_BASE_MODEL,),
        FAILED: (AWAITING_BASE_MODEL,),
        CANCELLED: (AWAITING_BASE_MODEL,),
    }, active=(STARTING_JOB, EVALUATING), resting=ENDS)


EVALUATION = _table("evaluation")
TRIAL = _table("trial")
QUEUED = (AWAITING_BASE_MODEL, AWAITING_CAPACITY)
OPEN = EVALUATION.open
"""Phases of unfinished work."""
