"""What asking a model refuses, by code."""

from optimize_site.kernel.errors import InvalidInput, Refused


class BaseModelNotReady(Refused):
    code = "base_model_not_selected"


class TemplateMismatch(Refused):
    code = "template_mismatch"


class MalformedMessages(InvalidInput):
    code = "malformed_messages"
