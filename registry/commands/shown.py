"""What the registry's commands share: arguments of lists, addresses, and how rows and relatives are shown."""

import json
from pathlib import Path
from typing import Any

from optimize_site.kernel.commands import arg
from optimize_site.kernel.errors import InvalidInput
from registry.references import LATEST, Reference, parse_reference, shown

ARCHIVED = arg("--archived", action="store_true", help="archived ones too")
LIMIT = arg("--limit", type=int, default=50)
OFFSET = arg("--offset", type=int, default=0)
MOST_KIN = 12


def marked(name: str, row: dict[str, Any]) -> str:
    """A name as lists show it, told apart where it is archived."""
    return f"{name} (archived)" if row["isArchived"] else name


def parse_named(text: str) -> Reference:
    """A reference with its namespace. Raises InvalidReference, InvalidInput for a bare name."""
    parsed = parse_reference(text)
    if not parsed.namespace:
        raise InvalidInput(f"{shown(text)} has no namespace.", code="invalid_reference", hint="Write NS/NAME[:REF].")
    return parsed


def address_of_version(routes: str, text: str, *, named: bool = False) -> str:
    """The route of `NS/NAME[:REF]`: one version, the newest without a REF; with `named` the whole artifact then."""
    parsed = parse_named(text)
    label = str(parsed)[len(parsed.artifact) + 1:]
    if named and not label:
        return f"{routes}/{parsed.artifact}"
    return f"{routes}/{parsed.artifact}/versions/{label or LATEST}"


def read_lineage(file: str) -> dict[str, Any]:
    """The lineage that a JSON file states; none for an empty name. Raises InvalidInput."""
    if not file:
        return {}
    try:
        found = json.loads(Path(file).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{file} could not be read as JSON: {error}.", code="unreadable_file") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"{file} holds no JSON object.", code="unreadable_file")
    return found


def kin(document: dict[str, Any]) -> list[tuple[str, str | None]]:
    """What a version came from, and what came from it, as lines."""
    return [("Came from", _listed(document["parents"])), ("Became", _listed(document["children"]))]


def _listed(found: list[dict[str, Any]]) -> str | None:
    shown = [f"{item['reference']} ({item['kind']})" if item["depth"] == 1 else
             f"{item['reference']} ({item['kind']}, {item['depth']} steps away)" for item in found[:MOST_KIN]]
    more = [f"and {len(found) - MOST_KIN} more"] if len(found) > MOST_KIN else []
    return ", ".join(shown + more) or None
