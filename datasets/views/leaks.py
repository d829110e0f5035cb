"""Rows to train on that ask what rows to judge by ask, on the dataset's page."""

from typing import Any

import orjson

from datasets import overlaps
from datasets.errors import RowsNotComparable
from datasets.models import ExampleSet
from datasets.prompts import prompt_of
from datasets.queries import KIND, example_set
from datasets.rows import text_of
from datasets.stored_rows import row_at
from optimize_site.kernel.htmx import HtmxRequest
from registry.models import Version
from registry.queries import list_artifacts, resolve_version
from registry.workload_queries import list_workloads

SHOWN, SHOWN_CHARACTERS = 10, 400
MOST_OPTIONS = 500


def leakage_tab(request: HtmxRequest, version: Version, examples: ExampleSet) -> dict[str, Any]:
    """What the dataset shares with the one that the address names, else with what its namespace judges by."""
    judges = judging(version)
    asked = request.GET.get("other", "").strip() or (judges[0].reference if judges else "")
    context: dict[str, Any] = {"other": asked, "judges": judges, "options": _options(version), "overlap": None,
                               "can_compare": examples.format in overlaps.COMPARABLE}
    if not asked or not context["can_compare"]:
        return context
    other = resolve_version(KIND, asked, namespace=version.artifact.namespace_id)
    try:
        found = overlaps.compare(version, other)
    except RowsNotComparable as error:
        return context | {"error": error}
    coverage = found["coverage"]
    return context | {"overlap": found, "judged": other, "share": coverage["read"] / max(1, coverage["total"]),
                      "groups": [("Asked word for word", "same", _shown(found["exact"], examples, other)),
                                 ("Asked nearly so", "near", _shown(found["near"], examples, other))]}


def judging(version: Version) -> list[Version]:
    """The datasets that workloads of the version's namespace judge by, without the version itself."""
    found = [workload.evaluation_dataset for workload in list_workloads()
             if workload.namespace_id == version.artifact.namespace_id]
    unique = {judge.pk: judge for judge in found if judge is not None and judge.content_hash != version.content_hash}
    return list(unique.values())


def _options(version: Version) -> list[str]:
    return [artifact.reference for artifact in list_artifacts(KIND)[:MOST_OPTIONS]
            if artifact.pk != version.artifact_id]


def _shown(matches: dict[str, Any], training: ExampleSet, judged: Version) -> dict[str, Any]:
    """The matches, the first of them with what both rows ask."""
    others = example_set(judged)
    pairs = [pair | {"asked": _asked(training, pair["position"]),
                     "judged": _asked(others, pair["evaluationPosition"])} for pair in matches["first"][:SHOWN]]
    return matches | {"pairs": pairs, "more": matches["rows"] - len(pairs)}


def _asked(examples: ExampleSet, position: int) -> str:
    """What a row asks last, cut where it is long."""
    asked = prompt_of(orjson.loads(row_at(examples, position).data))
    text = text_of(asked[-1].get("content")) if asked else ""
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
