"""What evaluations and promotions refuse, by code."""

from collections.abc import Sequence

from optimize_site.kernel.errors import Conflict, InvalidInput, NotFound, Problem, Refused


class WorkloadRequired(Refused):
    code = "workload_required"


class WorkloadMismatch(Refused):
    code = "workload_mismatch"


class DatasetRequired(Refused):
    code = "dataset_required"


class DatasetNotScorable(Refused):
    code = "dataset_not_scorable"


class AnswerCallsTools(Refused):
    code = "answer_calls_tools"


class SubmissionConflict(Conflict):
    code = "submission_conflict"


class PipelineRefused(Refused):
    """The pipeline cannot run as it stands; `problems` holds everything that is wrong with it."""

    code = "pipeline_refused"

    @classmethod
    def because(cls, problems: Sequence[Problem]) -> "PipelineRefused":
        """One sentence for one problem, else how many there are."""
        if len(problems) == 1:
            return cls(problems[0].message, hint=problems[0].hint, problems=problems)
        return cls(f"The pipeline is refused: its descriptor has {len(problems)} problems.", problems=problems)


class ComparisonRefused(Refused):
    """What was asked to be compared cannot be."""

    code = "comparison_refused"


class NothingToResume(Conflict):
    code = "nothing_to_resume"


class NothingToRetry(Conflict):
    code = "nothing_to_retry"


class NoEvidence(Refused):
    code = "no_evidence"


class NotBetter(Refused):
    code = "not_better"


class NoteRequired(InvalidInput):
    code = "note_required"


class NotComparable(NotFound):
    code = "not_comparable"


class ReportNotReady(Conflict):
    code = "report_not_ready"
