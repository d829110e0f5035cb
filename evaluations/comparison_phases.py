"""Which phase of a comparison may follow which."""

from optimize_site.kernel.phases import table

PREPARING, RUNNING = "PREPARING", "RUNNING"
COMPLETED, PARTIAL, FAILED = "COMPLETED", "PARTIAL", "FAILED"

COMPARISON = table("comparison", {
    PREPARING: [RUNNING, FAILED],
    RUNNING: [COMPLETED, PARTIAL, FAILED],
    COMPLETED: [],
    PARTIAL: [],
    FAILED: [],
})
"""COMPLETED: every target was scored. PARTIAL: some were, and no winner is named. FAILED: none was."""
