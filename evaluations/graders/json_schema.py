"""`json-schema`: the JSON in the answer is what a schema (draft 2020-12) allows.

A schema comes from whoever names the grader and meets texts that a model wrote, so what it may cost is bounded: steps
are counted, its patterns have a time limit, and nothing is ever fetched to resolve a reference.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from .json_values import NOTHING, find_value
from .patterns import Patience, TooSlow, compile_pattern
from .rule import BadGrader, Example, Judge, Parameter, Rule
from .verdict import Verdict, right, unscored, wrong

MAX_STEPS = 100_000
MAX_SHOWN = 3


class TooManySteps(Exception):
    """A schema asks for more comparisons than one row is worth."""


class Budget:
    """What judging one row may cost."""

    def __init__(self) -> None:
        self.steps, self.patience = MAX_STEPS, Patience()

    def step(self, number: int = 1) -> None:
        """Count comparisons. Raises TooManySteps."""
        self.steps -= number
        if self.steps < 0:
            raise TooManySteps


budget: ContextVar[Budget] = ContextVar("budget")


def make(parameters: Mapping[str, Any]) -> Judge:
    """Validates what find_value finds."""
    schema = parameters["schema"]
    _check(schema)

    def judge(answer: str, expected: str) -> Verdict:
        value = find_value(answer)
        if value is NOTHING:
            return wrong("The answer holds no JSON.")
        try:
            problems = _problems(schema, value)
        except TooSlow:
            return unscored("pattern_too_slow", "A pattern of the schema took too long.")
        except (TooManySteps, RecursionError):
            return unscored("schema_too_costly", f"The schema needs more than {MAX_STEPS} steps on this answer.")
        return wrong(" ".join(problems)) if problems else right()

    return judge


def _problems(schema: Mapping[str, Any], value: Any) -> list[str]:
    """The first things that are wrong with the value, a sentence each."""
    token = budget.set(Budget())
    try:
        errors = validator_class()(schema, registry=_nothing_known()).iter_errors(value)
        return [_sentence(error) for error, _ in zip(errors, range(MAX_SHOWN), strict=False)]
    finally:
        budget.reset(token)


def _sentence(error: Any) -> str:
    where = error.json_path.removeprefix("$").lstrip(".") or "The JSON"
    words = error.message if len(error.message) <= 200 else error.message[:199] + "…"
    return f"{where}: {words}."


def _check(schema: Mapping[str, Any]) -> None:
    """Raises BadGrader for a schema that is none, refers elsewhere, or has a pattern that does not parse."""
    from jsonschema import FormatChecker
    from jsonschema.exceptions import SchemaError

    try:  # without formats: what a pattern may be is for the module that runs it to say
        validator_class().check_schema(schema, format_checker=FormatChecker(()))
    except SchemaError as error:
        where = ".".join(str(part) for part in error.absolute_path)
        raise BadGrader(f"The schema is no JSON schema{f' at {where}' if where else ''}: {error.message[:200]}.",
                        path="schema", hint="It is read as draft 2020-12.") from error
    except RecursionError as error:
        raise BadGrader("The schema nests too deep.", path="schema") from error
    if "2020-12" not in str(schema.get("$schema", "2020-12")):
        raise BadGrader(f"The schema is written in {str(schema['$schema'])[:80]}; draft 2020-12 is read.",
                        path="schema", hint="Take $schema out if it says nothing that draft 2020-12 does not.")
    if {"unevaluatedProperties", "patternProperties"} <= {key for part in _parts(schema) for key in part}:
        raise BadGrader("The schema has both unevaluatedProperties and patternProperties; their patterns could not be "
                        "held to a time.", path="schema", hint="Take additionalProperties.")
    for reference in _references(schema):
        _check_reference(schema, reference)
    for pattern in _patterns(schema):
        compile_pattern(pattern, path="schema")


def _check_reference(schema: Mapping[str, Any], reference: str) -> None:
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    if not reference.startswith("#"):
        raise BadGrader(f"The schema refers to {reference[:80]!r}; it may refer only to itself.", path="schema",
                        hint="Put what it refers to under $defs and refer to it as #/$defs/NAME.")
    try:
        _nothing_known().with_resource("", DRAFT202012.create_resource(schema)).resolver().lookup(reference)
    except Unresolvable as error:
        raise BadGrader(f"The schema has nothing at {reference[:80]!r}, to which it refers.", path="schema") from error


def _parts(value: Any) -> Iterator[Mapping[str, Any]]:
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            yield item
            rest += item.values()
        elif isinstance(item, list):
            rest += item


def _references(schema: Any) -> Iterator[str]:
    """What it refers to; an $id below its top would change where that is looked for."""
    for part in _parts(schema):
        yield from (part[key] for key in ("$ref", "$dynamicRef", "$id")
                    if isinstance(part.get(key), str) and not (key == "$id" and part is schema))


def _patterns(schema: Any) -> Iterator[str]:
    for part in _parts(schema):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        if isinstance(part.get("patternProperties"), dict):
            yield from part["patternProperties"]


@lru_cache(maxsize=1)
def _nothing_known() -> Any:
    """A registry that resolves nothing outside the schema."""
    from referencing import Registry

    return Registry()


@lru_cache(maxsize=1)
def validator_class() -> Any:
    """The draft's validator with every keyword counted, and with patterns and uniqueness that cannot run away.

    Imported when first needed: most commands never judge by a schema.
    """
    from jsonschema import Draft202012Validator, validators

    own = {"pattern": _pattern, "patternProperties": _pattern_properties, "uniqueItems": _unique_items,
           "additionalProperties": _additional_properties}
    keywords = {name: _counted(function) for name, function in (dict(Draft202012Validator.VALIDATORS) | own).items()}
    return validators.extend(Draft202012Validator, keywords)


def _counted(function: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        spent = budget.get(None)
        if spent is not None:
            size = len(instance) if isinstance(instance, list | dict) else 1
            spent.step(1 + (len(value) if isinstance(value, list) else 0) + size // 8)
        yield from function(validator, value, instance, schema) or ()

    return counted


def _found(pattern: str, text: str) -> bool:
    spent = budget.get(None)
    patience = spent.patience if spent is not None else Patience()
    return patience.search(_compiled(pattern), text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    return compile_pattern(pattern, path="schema")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, str) and not _found(pattern, instance):
        yield ValidationError(f"{instance[:80]!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if _found(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not isinstance(instance, dict):
        return
    patterns = schema.get("patternProperties", {})
    extra = [name for name in instance if name not in schema.get("properties", {})
             and not any(_found(pattern, name) for pattern in patterns)]
    if allowed is False and extra:
        yield ValidationError(f"not asked for: {', '.join(repr(name[:40]) for name in extra[:5])}")
    elif isinstance(allowed, dict):
        for name in extra:
            yield from validator.descend(instance[name], allowed, path=name)


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if wanted and isinstance(instance, list) and len({_key(item) for item in instance}) < len(instance):
        yield ValidationError("the list holds an entry twice")


def _key(value: Any) -> Any:
    """A hashable stand-in: equal for what JSON Schema calls equal, so that 1 is 1.0 and true is not 1."""
    if isinstance(value, dict):
        return "object", frozenset((name, _key(item)) for name, item in value.items())
    if isinstance(value, list):
        return "list", tuple(map(_key, value))
    return ("truth", value) if isinstance(value, bool) else ("value", value)


RULE = Rule(
    "json-schema", "1 where the JSON in the answer is what the schema allows, else 0.",
    (Parameter("schema", "object", "A JSON schema, draft 2020-12; it may refer to itself only.", is_required=True),),
    make, Example({"schema": {"type": "object", "required": ["team"],
                              "properties": {"team": {"enum": ["billing", "cards"]}}}}, "", '{"team": "sales"}'))
