"""Which phase of an evaluation may follow which: those of all work that asks a model, then those of its grader.

Rules score an answer as it comes. Any other grader scores once every row is answered: the evaluation waits for it and
for a place where work runs that needs no device, and is then scored there.
"""

from endpoints.phases import (
    AWAITING_BASE_MODEL,
    AWAITING_CAPACITY,
    CANCELLED,
    COMPLETED,
    ENDS,
    EVALUATING,
    FAILED,
    QUEUED,
    STARTING_JOB,
    asking_table,
)
from optimize_site.kernel.phases import table

__all__ = ["AWAITING_BASE_MODEL", "AWAITING_CAPACITY", "AWAITING_GRADER", "CANCELLED", "COMPLETED", "ENDS",
           "EVALUATING", "EVALUATION", "FAILED", "OPEN", "QUEUED", "SCORING", "STARTING_JOB"]

AWAITING_GRADER, SCORING = "AWAITING_GRADER", "SCORING"
_ASKING = asking_table("evaluation")
EVALUATION = table("evaluation", {
    **_ASKING.next,
    AWAITING_BASE_MODEL: _ASKING.next[AWAITING_BASE_MODEL] | {AWAITING_GRADER},
    EVALUATING: _ASKING.next[EVALUATING] | {AWAITING_GRADER},
    AWAITING_GRADER: {SCORING, *ENDS},
    SCORING: {AWAITING_GRADER, *ENDS},
}, active=_ASKING.active | {SCORING}, resting=ENDS)
OPEN = EVALUATION.open
"""Phases of unfinished work."""
