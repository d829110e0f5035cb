"""What evaluations and promotions refuse, by code."""

from optimize_site.kernel.errors import Conflict, DescriptorRefused, InvalidInput, NotFound, Refused


class WorkloadRequired(Refused):
    code = "workload_required"


class WorkloadMismatch(Refused):
    code = "workload_mismatch"


class DatasetRequired(Refused):
    code = "dataset_required"


class DatasetNotScorable(Refused):
    code = "dataset_not_scorable"


class HostNotAllowed(Refused):
    """A grader is a service on a host that the operator does not list."""

    code = "grader_host_not_allowed"


class GraderNotReady(Refused):
    """A grader can be named and cannot score; `scorerCode` says why."""

    code = "grader_not_ready"


class AnswerCallsTools(Refused):
    code = "answer_calls_tools"


class SubmissionConflict(Conflict):
    code = "submission_conflict"


class PipelineRefused(DescriptorRefused):
    code, noun = "pipeline_refused", "pipeline"


class ComparisonRefused(Refused):
    """What was asked to be compared cannot be."""

    code = "comparison_refused"


class MalformedMark(InvalidInput):
    code = "malformed_mark"


class BundleNotUsable(Refused):
    """A bundle's function cannot score here; the code says why."""

    code = "bundle_not_usable"


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
