"""The errors of the box: one root, a stable code, one sentence with both values, and what to do next.

To add one, subclass the situation it refines in your app's `errors.py` and give it a `code`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a request: where (as the request writes it), a stable code, a sentence, what to do."""

    path: str
    code: str
    message: str
    hint: str = ""


class OperationError(Exception):
    """The operation did not happen. `status` is HTTP's, `exit_code` the command's."""

    code = "error"
    status = 400
    exit_code = 1
    title = "The request could not be carried out"

    def __init__(self, detail: str, *, hint: str = "", problems: Sequence[Problem] = (), code: str = "", **data: Any):
        super().__init__(detail)
        self.detail, self.hint, self.problems, self.data = detail, hint, tuple(problems), data
        if code:
            self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.detail, self.hint, self.problems, self.code, self.data)

    def document(self) -> dict[str, Any]:
        """The problem document (RFC 9457) that every surface shows."""
        body = {"type": f"/docs/errors#{self.code}", "title": self.title, "status": self.status, "code": self.code,
                "detail": self.detail, "hint": self.hint, "problems": [asdict(problem) for problem in self.problems]}
        return body | self.data


def _rebuild(kind: type[OperationError], detail: str, hint: str, problems: Any, code: str, data: Any) -> OperationError:
    return kind(detail, hint=hint, problems=problems, code=code, **data)


class InvalidInput(OperationError):
    code, status, exit_code, title = "invalid_input", 400, 2, "The request is not well formed"


class Refused(OperationError):
    code, status, exit_code, title = "refused", 422, 3, "Refused"


class DescriptorRefused(Refused):
    """A descriptor cannot be carried out as it stands; `problems` holds everything that is wrong with it."""

    noun = "work"

    @classmethod
    def because(cls, problems: Sequence[Problem]) -> Self:
        """One sentence for one problem, else how many there are."""
        if len(problems) == 1:
            return cls(problems[0].message, hint=problems[0].hint, problems=problems)
        return cls(f"The {cls.noun} is refused: its descriptor has {len(problems)} problems.", problems=problems)


class Conflict(OperationError):
    code, status, exit_code, title = "conflict", 409, 3, "The thing is in another state"


class PhaseConflict(Conflict):
    code = "phase_conflict"


class Forbidden(OperationError):
    code, status, exit_code, title = "forbidden", 403, 3, "Not allowed"


class NotAuthenticated(OperationError):
    code, status, exit_code, title = "not_authenticated", 401, 3, "Sign in first"


class NotFound(OperationError):
    code, status, exit_code, title = "not_found", 404, 4, "Not found"


class AmbiguousPrefix(NotFound):
    code = "ambiguous_prefix"


class TooLarge(Refused):
    code, status = "too_large", 413


class Unavailable(OperationError):
    code, status, exit_code, title = "unavailable", 503, 1, "A service does not answer"
