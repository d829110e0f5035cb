"""What can go wrong with analyses."""

from optimize_site.kernel.errors import Conflict, Refused


class NotAnalysable(Refused):
    """The dataset holds rows that an analysis does not measure."""

    code = "dataset_not_analysable"


class BaseModelUnusable(Refused):
    """The base model has no commit here to measure under."""

    code = "base_model_unusable"


class AnalysisEnded(Conflict):
    code = "analysis_ended"
