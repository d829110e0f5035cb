"""The command and the route that do what a part of a dataset's page does."""

import shlex
from typing import Any
from urllib.parse import urlencode

from registry.models import Version

ROUTES = "/v1/registry/datasets"


def same_from_a_terminal(tab: str, version: Version, shown: dict[str, Any]) -> tuple[str, str]:
    """For a part with what it shows: the words after `./optimize`, and the path after the box's address."""
    reference, named = version.reference, f"{ROUTES}/{version.artifact.reference}"
    held = f"{named}/versions/v{version.number}"
    if tab == "rows":
        offset, search = shown["found"]["offset"], shown["search"]
        asked = {key: value for key, value in (("search", search), ("offset", offset)) if value}
        flags = "".join(f" --{key} {shlex.quote(str(value))}" for key, value in asked.items())
        return f"datasets rows {reference}{flags}", f"{held}/rows" + (f"?{urlencode(asked)}" if asked else "")
    if tab == "leakage" and shown["overlap"] is not None:
        other = shown["judged"].reference
        return f"datasets overlap {reference} {other}", f"{held}/overlap?{urlencode({'other': other})}"
    if tab == "lengths":
        return f"datasets analyses {version.artifact.reference}", f"/v1/training/datasets/analyses?dataset={reference}"
    if tab == "versions":
        return f"registry datasets versions {version.artifact.reference}", f"{named}/versions"
    return f"registry datasets get {reference}", held
