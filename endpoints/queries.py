"""Reads trials."""

from endpoints.models import Trial
from optimize_site.kernel.ids import find_by_prefix


def get_trial(text: str) -> Trial:
    """The trial of that ID or beginning of one. Raises NotFound."""
    return find_by_prefix(Trial.objects.select_related("model__artifact"), text.strip().lower(), noun="trial")
