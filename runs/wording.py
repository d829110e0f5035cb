"""How a refusal is worded: pydantic's errors as problems that name the field, both values, and what was meant."""

import difflib
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from optimize_site.kernel.errors import Problem
from optimize_site.kernel.text import written_path

HYPERPARAMETER_GROUPS = ("lora", "optimizer", "scheduler", "training")
SHOWN_DIGITS = 40
FieldPath = tuple[str, ...]
Model = type[BaseModel]


def fields_of(part: Model, path: FieldPath = ()) -> Iterator[tuple[FieldPath, FieldInfo]]:
    """Every field below a model with the path the descriptor writes, depth first."""
    for info in part.model_fields.values():
        here = (*path, str(info.alias))
        yield here, info
        inner = part_of(info.annotation)
        if inner is not None:
            yield from fields_of(inner, (*path, here[-1] + "[]") if is_list(info.annotation) else here)


def arms_of(annotation: Any) -> list[Any]:
    """What a type is made of, Annotated and Optional looked through."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return arms_of(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [arm for part in typing.get_args(annotation) for arm in arms_of(part) if arm is not type(None)]
    return [annotation]


def is_list(annotation: Any) -> bool:
    """Whether a field holds a list."""
    return any(typing.get_origin(arm) is list for arm in arms_of(annotation))


def part_of(annotation: Any) -> Model | None:
    """The group of fields that a field holds, or a list of it."""
    for arm in arms_of(annotation):
        inner = typing.get_args(arm)[0] if typing.get_origin(arm) is list else arm
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            return inner
    return None


def shown_path(parts: tuple[Any, ...]) -> str:
    """A path as refusals write it: a hyperparameter by its group, anything else from the top."""
    if parts[:1] == ("config",) and len(parts) > 2 and parts[1] in {"hyperparams", "rlHyperparams"} \
            and parts[2] in HYPERPARAMETER_GROUPS:
        return written_path(parts[2:])
    return written_path(parts)


def short_name(path: str) -> str:
    """A path as a sentence names the field: without the words `config` and `execution` in front."""
    return path.removeprefix("config.")


def problem_of(item: Any, root: Model) -> Problem:
    """One of pydantic's errors in our words."""
    path = shown_path(item["loc"])
    name, kind, value = short_name(path) or "the descriptor", item["type"], item.get("input")
    context = item.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_field(item["loc"], path, root)
    if kind == "literal_error":
        return _unknown_value(path, name, value, _choices(item["loc"], root))
    if kind == "greater_than_equal" and context["ge"] == 0:
        return Problem(path, "negative_number", f"{name} is {clipped(value)}; it must not be negative.",
                       "Leave it out to take the default.")
    if kind in {"greater_than_equal", "less_than", "less_than_equal"}:
        return Problem(path, "out_of_range", f"{name} is {clipped(value)}; it must be {_bound(kind, context)}.")
    if kind in {"string_too_long", "too_long", "string_too_short"}:
        return Problem(path, "wrong_length", f"{name} has {len(value)} characters or items; "
                       f"{_length_bound(kind, context)}.")
    if kind == "finite_number":
        return Problem(path, "not_finite", f"{name} is {value}; it must be a finite number.")
    return Problem(path, "wrong_kind", f"{name} is {describe_kind(value)}; it must be {_expected(item)}.")


def _bound(kind: str, context: Mapping[str, Any]) -> str:
    words = {"greater_than_equal": ("at least", "ge"), "less_than": ("below", "lt"),
             "less_than_equal": ("at most", "le")}
    word, key = words[kind]
    return f"{word} {context[key]}"


def _length_bound(kind: str, context: Mapping[str, Any]) -> str:
    if kind == "string_too_short":
        return "it must not be empty"
    return f"it may have at most {context['max_length']}"


def clipped(number: float) -> str:
    """A number short enough for a sentence."""
    written = str(number)
    return written if len(written) <= SHOWN_DIGITS else written[:SHOWN_DIGITS] + "…"


def describe_kind(value: Any) -> str:
    """A value as a sentence calls it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"{value}".lower()
    if isinstance(value, str):
        return f"the text {value[:60]!r}"
    if isinstance(value, int | float):
        return f"the number {clipped(value)}"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list) else f"a {type(value).__name__}"


def _expected(item: Any) -> str:
    words = {"int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
             "bool_type": "true or false", "string_type": "a text", "list_type": "a list", "dict_type": "an object",
             "model_type": "an object", "model_attributes_type": "an object"}
    return words.get(item["type"], "of another kind")


def _unknown_value(path: str, name: str, value: Any, choices: list[str]) -> Problem:
    listed = ", ".join(choices)
    if not isinstance(value, str):
        return Problem(path, "wrong_kind", f"{name} is {describe_kind(value)}; it must be one of {listed}.")
    if path == "kind" and value == "pipeline":
        return Problem(path, "unknown_value", "kind is 'pipeline'; a run descriptor's kind is 'run'.",
                       "Start a pipeline with `./optimize pipelines start`.")
    near = difflib.get_close_matches(value.lower(), [choice.lower() for choice in choices], 1)
    hint = next((f"Did you mean {choice}?" for choice in choices if near and choice.lower() == near[0]), "")
    return Problem(path, "unknown_value", f"{name} is {value!r}; it must be {'one of ' if len(choices) > 1 else ''}"
                   f"{listed}.", hint)


def _choices(location: tuple[Any, ...], root: Model) -> list[str]:
    info = _field_at(location, root)
    literals = [arm for arm in arms_of(info.annotation) if typing.get_origin(arm) is Literal] if info else []
    return [str(value) for literal in literals for value in typing.get_args(literal)]


def _field_at(location: tuple[Any, ...], root: Model) -> FieldInfo | None:
    part: Model | None = root
    info: FieldInfo | None = None
    for name in location:
        if isinstance(name, int) or part is None:
            continue
        info = next((found for found in part.model_fields.values() if found.alias == name), None)
        part = part_of(info.annotation) if info else None
    return info


NEVER = {
    "format": "A dataset is chat JSONL, so there is nothing to state.",
    "chatTemplate": "The template is the tokenizer's; a model trained under another would be served under this one.",
    "seed": "The run's one seed is hyperparams.training.seed.",
}


def _unknown_field(location: tuple[Any, ...], path: str, root: Model) -> Problem:
    name = str(location[-1])
    info = _field_at(location[:-1], root)
    part = (part_of(info.annotation) if info else None) or root
    group = short_name(shown_path(location[:-1])) or "the descriptor"
    return Problem(path, "unknown_field", f"{name!r} is not a field of {group}.", _near(name, part, root))


def _near(name: str, part: Model, root: Model) -> str:
    """What the person may have meant: a field of this group, or the same name in another."""
    if name in NEVER:
        return NEVER[name]
    here = [str(info.alias) for info in part.model_fields.values()]
    near = difflib.get_close_matches(name, here, 1)
    if near:
        return f"Did you mean {near[0]}?"
    elsewhere = [".".join(path) for path, _ in fields_of(root) if path[-1].lower() == name.lower()]
    if elsewhere:
        return f"It belongs in {' or '.join(elsewhere[:2])}."
    return f"The fields here are {', '.join(here)}."
