"""Meets the bundle's function: finds it, says what it takes, calls it, and reads what comes back.

An item holds the values of the arguments that the function takes, in the order of `Call.takes`. An entry of what comes
back is a number, or `[score, explanation, {part: is right}]`, or `{"c": cause, "x": explanation}` where there is no
score.
"""

import importlib
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

PACKAGE = "scoring_bundle"
ONE = ("data_source", "solution_str", "ground_truth", "extra_info")
MANY = ("data_sources", "solution_strs", "ground_truths", "extra_infos")
MAX_EXPLANATION, MAX_PARTS, MAX_PART = 2000, 32, 80
REASONS = ("explanation", "reason")
PLAIN = frozenset({float, int, bool, dict})
Item = tuple[Any, ...]


class NoFunction(Exception):
    """The bundle has nothing that could be called: a code, a sentence, what to do."""

    def __init__(self, code: str, reason: str, hint: str = ""):
        super().__init__(reason)
        self.code, self.reason, self.hint = code, reason, hint


def load(folder: str, module: str, function: str) -> Callable[..., Any]:
    """The function of a module of the bundle. The bundle's top folder is a package, so that its modules may import each
    other relatively; it stands last in the search path as well. Raises NoFunction."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [folder]
    sys.modules[PACKAGE] = package
    sys.path.append(folder)
    try:
        found = importlib.import_module(f"{PACKAGE}.{module}")
    except BaseException as error:
        raise NoFunction("bundle_does_not_import", f"The module {module} cannot be imported: {told(error)}",
                         "A bundle has Python's standard library and what it holds itself.") from error
    called = getattr(found, function, None)
    if not callable(called):
        have = ", ".join(sorted(name for name, value in vars(found).items() if inspect.isfunction(value))[:8])
        raise NoFunction("bundle_without_function", f"The module {module} has no function {function}.",
                         f"It has {have}." if have else "It has no function at all.")
    return called  # type: ignore[no-any-return]


def told(error: BaseException) -> str:
    """An error in a line, with the place in the bundle where it was raised; never raises itself."""
    try:
        text = f"{type(error).__name__}: {error}"[:MAX_EXPLANATION]
        place, frames = "", error.__traceback__
        while frames is not None:
            code = frames.tb_frame.f_code
            if frames.tb_frame.f_globals.get("__name__", "").startswith(PACKAGE):
                place = f" ({code.co_filename.rpartition('/')[2]}, line {frames.tb_lineno})"
            frames = frames.tb_next
        return text + place
    except Exception:
        return "an error that cannot be told"


class Call:
    """A function as it is called: with what it takes of the four arguments, one item or many at a time."""

    def __init__(self, function: Callable[..., Any]):
        names, by_place, takes_all = _parameters(function)
        self.is_batch = not takes_all and bool(names) and all(name in MANY for name in names)
        offered = MANY if self.is_batch else ONE
        strangers = [name for name, required in names.items() if required and name not in offered]
        if strangers:
            raise NoFunction("bundle_function_asks_more", f"The function needs {strangers[0]}, which is not given.",
                             f"It may take {', '.join(ONE)}, or {', '.join(MANY)}.")
        # In the function's own order, so that they can be given by their places where it has them first.
        self.takes = list(offered) if takes_all else [name for name in names if name in offered]
        self._by_place = not takes_all and self.takes == by_place[:len(self.takes)]
        self.is_async = inspect.iscoroutinefunction(function)
        self._function = function
        self._loop: asyncio.AbstractEventLoop | None = None

    def one(self, item: Item) -> Any:
        """The entry of one item; what the function raises is one too."""
        try:
            value = self._function(*item) if self._by_place else self._function(**dict(zip(self.takes, item)))  # noqa: B905
            if type(value) not in PLAIN:
                value = self._finished(value)
        except BaseException as error:
            return {"c": "error", "x": told(error)}
        if type(value) is float and 0.0 <= value <= 1.0:
            return value
        return read(value)

    def many(self, items: Sequence[Item]) -> Iterator[Any]:
        """The entries of several items from one call; from one call each where that fails, so that an item that breaks
        the function costs its own score alone."""
        entries = self._together(items)
        if isinstance(entries, list):
            yield from entries
        elif len(items) == 1:
            yield entries
        else:
            for item in items:
                yield from self.many([item])

    def _together(self, items: Sequence[Item]) -> Any:
        """The entries, or the one entry that says why there are none."""
        try:
            arguments = {name: [item[place] for item in items] for place, name in enumerate(self.takes)}
            values = self._finished(self._function(**arguments))
            if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
                return invalid(f"it gave a {type(values).__name__}, not a list of scores")
            if len(values) != len(items):
                return invalid(f"it gave {len(values)} scores for {len(items)} answers")
            return [read(value) for value in values]
        except BaseException as error:
            return {"c": "error", "x": told(error)}

    def _finished(self, value: Any) -> Any:
        if not inspect.isawaitable(value):
            return value
        if self._loop is None:
            import asyncio

            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(value)


def _parameters(function: Callable[..., Any]) -> tuple[dict[str, bool], list[str], bool]:
    """The names it can be called with, each with whether it must be given; those it takes by place too, in order; and
    whether it takes any name. Raises NoFunction for one that can only be called by position."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise NoFunction("bundle_function_asks_more", f"What the function takes cannot be told: {error}.",
                         "Write it as a plain function.") from error
    nameless = [one.name for one in found if one.kind is one.POSITIONAL_ONLY]
    if nameless:
        raise NoFunction("bundle_function_asks_more", f"The function takes {nameless[0]} by its place only.",
                         "Arguments are given by name.")
    by_place = [one.name for one in found if one.kind is one.POSITIONAL_OR_KEYWORD]
    named = {one.name: one.default is one.empty for one in found
             if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    return named, by_place, any(one.kind is one.VAR_KEYWORD for one in found)


# What comes back -----------------------------------------------------------------------------------------------------


def read(value: Any) -> Any:
    """The entry of what a function gave: a number from 0 to 1, or a mapping whose `score` is one."""
    try:
        if type(value) is dict or isinstance(value, Mapping):
            return _read_mapping(value)
        return _number(value, "it gave")
    except Exception as error:
        return invalid(f"what it gave cannot be read: {told(error)}")


def _number(value: Any, said: str) -> Any:
    if not isinstance(value, int | float):
        return invalid(f"{said} {_shown(value)}, not a number")
    if not (isinstance(value, int) or math.isfinite(value)):
        return invalid(f"{said} {value}")
    if not 0 <= value <= 1:
        return invalid(f"{said} {_shown(value)}, which is not between 0 and 1")
    return float(value)


def _read_mapping(value: Mapping[Any, Any]) -> Any:
    if "score" not in value:
        return invalid("it gave a mapping without score")
    score = value["score"]
    if type(score) is not float or not 0.0 <= score <= 1.0:
        score = _number(score, "its score is")
        if not isinstance(score, float):
            return score
    parts: dict[str, bool] = {}
    reason = ""
    for name, part in value.items():
        if (part is True or part is False) and name != "score":
            parts[name if type(name) is str else str(name)] = part
        elif name in REASONS and isinstance(part, str):
            reason = reason or part[:MAX_EXPLANATION]
    if len(parts) > MAX_PARTS or any(len(name) > MAX_PART for name in parts):
        parts = {name[:MAX_PART]: part for name, part in list(parts.items())[:MAX_PARTS]}
    return [score, reason, parts] if reason or parts else score


def _shown(value: Any) -> str:
    if isinstance(value, int | float | bool) or value is None:
        return repr(value)[:60]
    return f"a {type(value).__name__}"


def invalid(reason: str) -> dict[str, Any]:
    """The entry of a result that is no score."""
    return {"c": "invalid_result", "x": f"The function gave no score: {reason}."[:MAX_EXPLANATION]}
