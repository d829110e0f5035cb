"""The descriptor of a model that a person registers: a base model, or an adapter from elsewhere over one."""

from dataclasses import dataclass, field
from typing import Any

from registry.errors import MalformedDescriptor
from registry.model_queries import ADAPTER, BASE, WEIGHTS

FIELDS = {"servingModel", "lineage", "description"}
SERVING_FIELDS = {BASE: {"variant", "baseModel", "revision"}, ADAPTER: {"variant", "baseModel", "adapterRank"}}
EXAMPLE = 'Example: {"servingModel": {"variant": "BASE", "baseModel": "Qwen/Qwen3-0.6B"}}'


@dataclass(frozen=True)
class ModelDescriptor:
    """`rank` is None where it is left to the adapter's own configuration."""

    variant: str
    base_model: str
    revision: str = ""
    rank: int | None = None
    lineage: dict[str, Any] = field(default_factory=dict)
    description: str = ""

    @property
    def is_base(self) -> bool:
        return self.variant == BASE


def parse_model_descriptor(document: Any) -> ModelDescriptor:
    """A descriptor as a person writes it. Raises MalformedDescriptor."""
    serving = document.get("servingModel") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(serving, dict):
        raise MalformedDescriptor("A model descriptor holds `servingModel`.", hint=EXAMPLE)
    _check_fields("The descriptor", document, FIELDS)
    variant = serving.get("variant")
    if variant == WEIGHTS:
        raise MalformedDescriptor("Models of whole weights are not kept: an endpoint here serves a base model with "
                                  "adapters.", hint="Add the base model to the catalog, or register an adapter.")
    if variant not in SERVING_FIELDS:
        raise MalformedDescriptor(f"servingModel.variant is {variant!r}; it must be {BASE} or {ADAPTER}.", hint=EXAMPLE)
    if variant == ADAPTER and "revision" in serving:
        raise MalformedDescriptor("An adapter's servingModel has no revision: its base model's version has it.",
                                  hint="Leave revision out, and name the base as NS/NAME:vN where there are several.")
    _check_fields("servingModel", serving, SERVING_FIELDS[variant])
    lineage, description = document.get("lineage") or {}, document.get("description") or ""
    if not isinstance(lineage, dict) or not isinstance(description, str):
        raise MalformedDescriptor("lineage must be an object, and description a text.", hint=EXAMPLE)
    return ModelDescriptor(variant, _text(serving, "baseModel"), _text(serving, "revision", needed=False),
                           _rank(serving.get("adapterRank")), lineage, description)


def _check_fields(what: str, found: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(set(found) - known)
    if unknown:
        raise MalformedDescriptor(f"{what} has unknown fields: {', '.join(unknown)[:200]}.",
                                  hint=f"It may hold {', '.join(sorted(known))}.")


def _text(serving: dict[str, Any], name: str, *, needed: bool = True) -> str:
    value = serving.get(name)
    if value in (None, "") and not needed:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise MalformedDescriptor(f"servingModel.{name} must be a text.", hint=EXAMPLE)
    return value.strip()


def _rank(value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise MalformedDescriptor(f"servingModel.adapterRank is {value!r}; it must be a whole number from 1 on.")
    return value
