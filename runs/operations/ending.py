"""The one way a run fails."""

from collections.abc import Mapping
from typing import Any

from optimize_site.kernel import doorbell
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.phases import move
from runs.models import Run
from runs.phases import PHASES


def fail_run(run: Run, *, code: str, reason: str, hint: str, evidence: Mapping[str, Any]) -> None:
    """Send a run to its end with why, as one sentence, what to change, and what it is known by."""
    move(run, "CLEANING_UP", phases=PHASES, actor=SYSTEM, reason=reason, failure_code=code[:40], failure_reason=reason,
         failure_hint=hint, failure_evidence=dict(evidence))
    doorbell.ring_control()
