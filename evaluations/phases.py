"""Which phase of an evaluation may follow which: those of all work that asks a model."""

from endpoints.phases import (
    AWAITING_BASE_MODEL,
    AWAITING_CAPACITY,
    CANCELLED,
    COMPLETED,
    ENDS,
    EVALUATING,
    FAILED,
    OPEN,
    QUEUED,
    STARTING_JOB,
    asking_table,
)

__all__ = ["AWAITING_BASE_MODEL", "AWAITING_CAPACITY", "CANCELLED", "COMPLETED", "ENDS", "EVALUATING", "EVALUATION",
           "FAILED", "OPEN", "QUEUED", "STARTING_JOB"]

EVALUATION = asking_table("evaluation")
