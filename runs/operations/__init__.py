"""What can be done with runs: check, submit, pause, resume, cancel, annotate; and the control steps."""

from runs.operations.advance import advance_all, advance_run
from runs.operations.annotate import annotate_run
from runs.operations.cancel import cancel_run
from runs.operations.check import check_run
from runs.operations.pausing import Pausing, pause_run, resume_run
from runs.operations.submit import Submission, submit_run

__all__ = ["Pausing", "Submission", "advance_all", "advance_run", "annotate_run", "cancel_run", "check_run",
           "pause_run", "resume_run", "submit_run"]
