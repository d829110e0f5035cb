"""The one way a run fails."""

from typing import Any

from optimize_site.kernel import doorbell
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.phases import move
from runs.models import Run
from runs.phases import PHASES


def fail_run(run: Run, *, code: str, reason: str, hint: str = "", evidence: dict[str, Any] | None = None) -> None:
    """Send a run to its end with why, as one sentence, and what to change."""
    move(run, "CLEANING_UP", phases=PHASES, actor=SYSTEM, reason=reason, failure_code=code[:40], failure_reason=reason,
         failure_hint=hint, failure_evidence=evidence or {})
    doorbell.ring_control()
