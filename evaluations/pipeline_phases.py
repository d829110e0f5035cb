"""Which phase of a pipeline may follow which."""

from optimize_site.kernel.phases import table

RUNNING, COMPLETED, FAILED, CANCELLED = "RUNNING", "COMPLETED", "FAILED", "CANCELLED"

PIPELINE = table("pipeline", {
    RUNNING: [COMPLETED, FAILED, CANCELLED],
    FAILED: [RUNNING],
    CANCELLED: [RUNNING],
    COMPLETED: [],
}, resting=[FAILED, CANCELLED])
"""A pipeline that failed or was cancelled may be taken up again."""
ENDS = frozenset({COMPLETED, FAILED, CANCELLED})
