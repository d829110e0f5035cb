"""What a request that registers data states beside its body."""

import json
from typing import Any

from datasets.errors import LineageInvalid
from datasets.operations import check_lineage


def stated_lineage(text: str) -> dict[str, Any] | None:
    """The lineage a request states as JSON. Raises LineageInvalid."""
    if not text:
        return None
    try:
        return check_lineage(json.loads(text))
    except ValueError as error:
        raise LineageInvalid("The lineage is not JSON.", hint="Send one JSON object.") from error
