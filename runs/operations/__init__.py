"""What can be done with runs: check, submit, cancel, annotate, and the control steps that carry them on."""

from runs.operations.advance import advance_all, advance_run
from runs.operations.annotate import annotate_run
from runs.operations.cancel import cancel_run
from runs.operations.check import check_run
from runs.operations.submit import Submission, submit_run

__all__ = ["Submission", "advance_all", "advance_run", "annotate_run", "cancel_run", "check_run", "submit_run"]
