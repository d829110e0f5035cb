"""What can be done with runs: check, submit, branch, pause, resume, cancel, annotate, keep snapshots; control steps."""

from runs.operations.advance import advance_all, advance_run
from runs.operations.annotate import annotate_run
from runs.operations.branching import branch_run, plan_branch
from runs.operations.cancel import cancel_run
from runs.operations.candidates import get_candidate, register_candidate
from runs.operations.check import check_run
from runs.operations.continuing import why_not_continue, wish_to_continue
from runs.operations.holds import pin_snapshot, release_snapshot, unpin_snapshot
from runs.operations.pausing import Pausing, pause_run, resume_run, why_not_pause
from runs.operations.queueing import prioritize_run, why_not_prioritize
from runs.operations.retention import tend_snapshots
from runs.operations.submit import Submission, submit_run
from runs.operations.sweeping import sweep_runs
from runs.operations.verify import verify_run

__all__ = [
           "Pausing",
           "Submission",
           "advance_all",
           "advance_run",
           "annotate_run",
           "branch_run",
           "cancel_run",
           "check_run",
           "get_candidate",
           "pause_run",
           "pin_snapshot",
           "plan_branch",
           "prioritize_run",
           "register_candidate",
           "release_snapshot",
           "resume_run",
           "submit_run",
           "sweep_runs",
           "tend_snapshots",
           "unpin_snapshot",
           "verify_run",
           "why_not_continue",
           "why_not_pause",
           "why_not_prioritize",
           "wish_to_continue",
]
