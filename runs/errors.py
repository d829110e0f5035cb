"""What can go wrong with runs."""

from collections.abc import Sequence

from optimize_site.kernel.errors import Conflict, NotFound, Problem, Refused


class RunRefused(Refused):
    """The descriptor cannot run as it stands; `problems` holds everything that is wrong with it."""

    code = "run_refused"

    @classmethod
    def because(cls, problems: Sequence[Problem]) -> "RunRefused":
        """One sentence for one problem, else how many there are."""
        if len(problems) == 1:
            return cls(problems[0].message, hint=problems[0].hint, problems=problems)
        return cls(f"The run is refused: its descriptor has {len(problems)} problems.", problems=problems)


class SubmissionConflict(Conflict):
    code = "submission_conflict"


class RunEnded(Conflict):
    code = "run_ended"


class TooLateToCancel(Conflict):
    code = "too_late_to_cancel"


class NotWritten(NotFound):
    """The job has not written this yet."""

    code = "not_written"


class SnapshotDamaged(Refused):
    code = "snapshot_invalid"
