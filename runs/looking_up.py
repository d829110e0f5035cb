"""How looking something up for a descriptor goes wrong: the field that names it has a problem, and the rest is read."""

from collections.abc import Callable
from typing import TypeVar

from optimize_site.kernel.errors import OperationError, Problem

T = TypeVar("T")


def tried(problems: list[Problem], path: str, look: Callable[[], T]) -> T | None:
    """What `look` finds, or None and a problem of the field; a field has one problem of this kind."""
    try:
        return look()
    except OperationError as error:
        if not any(problem.path == path for problem in problems):
            problems.append(Problem(path, error.code, error.detail, error.hint))
        return None
