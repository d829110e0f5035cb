"""What asking a model refuses, by code."""

from optimize_site.kernel.errors import InvalidInput, Refused


class BaseModelNotReady(Refused):
    code = "base_model_not_selected"


class TemplateMismatch(Refused):
    code = "template_mismatch"


class InstructionsRequired(Refused):
    code = "grader_instructions_required"


class NoRoomForJudges(Refused):
    code = "no_room_for_judge"


class MalformedMessages(InvalidInput):
    code = "malformed_messages"
