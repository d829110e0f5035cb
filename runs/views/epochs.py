"""What an epoch over a dataset takes, on the dataset's page: time and cost, each with where the figure comes from."""

from collections.abc import Iterator
from typing import Any

from optimize_site.kernel.feeds import Item, feed
from optimize_site.kernel.templatetags.ui import duration
from registry.models import Version
from runs.descriptor import parse_descriptor
from runs.evidence import estimates_for
from runs.lookups import facts_for
from runs.resolve import resolve


@feed("epoch-cost")
def cost_of_an_epoch(subject: tuple[Version, str]) -> Iterator[Item]:
    """Of a dataset's version under a base model, with every setting at its default."""
    version, model = subject
    parsed = parse_descriptor({"kind": "run", "baseModel": model, "config": {
        "dataset": version.reference, "hyperparams": {"training": {"epochs": 1}}}})
    facts = facts_for(parsed.descriptor)
    found = estimates_for(resolve(parsed, facts), facts)
    yield _item("Time", found["seconds"], lambda seconds: f"about {duration(seconds)}")
    yield _item("Cost", found["cost"], lambda cost: f"{cost:,.2f}")


def _item(title: str, figure: dict[str, Any], spell: Any) -> Item:
    note = "unknown" if figure["value"] is None else spell(figure["value"])
    return Item("", title, "", note=note, detail=figure["note"])
