"""The phases of an analysis, and the words its status has for people and programs."""

from optimize_site.kernel.phases import table

PENDING, STARTING, RUNNING = "PENDING", "STARTING", "RUNNING"
COMPLETED, FAILED, CANCELLED = "COMPLETED", "FAILED", "CANCELLED"

ENDS = (COMPLETED, FAILED, CANCELLED)
PHASES = table("analysis", {
    PENDING: (STARTING, FAILED, CANCELLED),
    STARTING: (RUNNING, PENDING, *ENDS),
    RUNNING: (PENDING, *ENDS),
    COMPLETED: (PENDING,),
    FAILED: (PENDING,),
    CANCELLED: (PENDING,),
}, active=(STARTING, RUNNING), resting=ENDS)

STATUS = {PENDING: "pending", STARTING: "running", RUNNING: "running", COMPLETED: "done", FAILED: "failed",
          CANCELLED: "cancelled"}
"""What the API calls a phase."""
UNREADABLE = "unreadable"
"""The status of a finished analysis whose measurements are gone from the disk."""

REFUSED_THE_DATA = frozenset({"bad_row", "data_error", "nothing_to_train", "base_model_refused"})
"""Failures that lie in what was given: the same rows under the same model would fail again."""
