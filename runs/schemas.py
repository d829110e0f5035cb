"""The descriptor's JSON schema as the API's description carries it."""

from typing import Any

from runs.descriptor import RunDescriptor


def descriptor_schema() -> dict[str, Any]:
    """The schema of a run descriptor, in one piece."""
    schema = RunDescriptor.model_json_schema(by_alias=True)
    parts = schema.pop("$defs", {})
    whole: dict[str, Any] = _inlined(schema, parts)
    return whole


def _inlined(node: Any, parts: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, parts) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(parts[node["$ref"].rpartition("/")[2]], parts)
    return {key: _inlined(value, parts) for key, value in node.items() if key != "x-default"}
