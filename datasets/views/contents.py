"""What the rows of a dataset hold, as pictures: answers, labels, lengths, languages, repeats, tokens and their cost."""

import math
from typing import Any

from django.conf.locale import LANG_INFO

from datasets.analyses.queries import find_analysis
from datasets.models import ExampleSet
from datasets.overlaps import COMPARABLE
from datasets.views.reading import analysed_models, chosen_model
from optimize_site.kernel.feeds import items
from optimize_site.kernel.htmx import HtmxRequest
from registry.base_model_queries import base_model_state
from registry.models import Version

MOST_FIELDS, MOST_VALUES = 6, 10
LANGUAGES = 8


def contents_tab(request: HtmxRequest, version: Version, examples: ExampleSet) -> dict[str, Any]:
    """Statistics of the registration, and those of the analysis under the model that the address asks for."""
    models = analysed_models(examples)
    model = chosen_model(request, models)
    report = _report(examples, model)
    return {"statistics": examples.statistics, "is_text": examples.format in COMPARABLE,
            "balance": balance(examples.statistics, report),
            "lengths": _lengths(examples.statistics), "models": models, "model": model, "report": report,
            "languages": _languages(report.get("languages") or []),
            "duplicates": report.get("duplicates") or {},
            "costs": items("epoch-cost", (version, model)) if report else []}


def _report(examples: ExampleSet, model: str) -> dict[str, Any]:
    state = base_model_state(model) if model else None
    analysis = find_analysis(examples.pk, state) if state is not None else None
    return analysis.report if analysis is not None else {}


def balance(statistics: dict[str, Any], report: dict[str, Any]) -> list[dict[str, Any]]:
    """What the answers say, as bars: each field of JSON answers, or the answers where they are labels.

    An analysis has looked at every row; registration told the first values apart.
    """
    if report.get("labels"):
        found = [{"name": label["field"], "values": label["values"], "rows": sum(value["rows"] for value in
                  label["values"]), "distinct": len(label["values"])} for label in report["labels"]]
    else:
        fields = dict(statistics.get("fields") or {})
        if statistics.get("labels"):
            fields = {"Answer": statistics["labels"]} | fields
        found = [{"name": name, "values": field["top"], "rows": field["rows"], "distinct": field["distinct"]}
                 for name, field in fields.items()]
    return [_bars(field) for field in found if field["distinct"] > 1][:MOST_FIELDS]


def _bars(field: dict[str, Any]) -> dict[str, Any]:
    values = [value | {"share": value["rows"] / max(1, field["rows"])} for value in field["values"][:MOST_VALUES]]
    return {"name": field["name"], "values": values, "more": max(0, field["distinct"] - MOST_VALUES)}


def _languages(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    total = sum(entry["rows"] for entry in found)
    return [{"name": _named(entry["language"]), "rows": entry["rows"], "share": entry["rows"] / max(1, total)}
            for entry in found[:LANGUAGES]]


def _named(code: str) -> str:
    """A language by its English name, where its code is known."""
    return str(LANG_INFO.get(code, {}).get("name", {"zh": "Chinese"}.get(code, code)))


def _lengths(statistics: dict[str, Any]) -> list[dict[str, Any]]:
    """Lengths of whole rows and of answers on one logarithmic scale, so that one long row leaves the others apart."""
    longest = max([(statistics.get(key) or {}).get("max", 0) for key in ("rowCharacters", "answerCharacters")] + [1])
    named = (("Whole row", "rowCharacters"), ("Answer", "answerCharacters"))
    return [{"name": name, "found": found} | _places(found, longest)
            for name, key in named if (found := statistics.get(key))]


def _places(found: dict[str, Any], longest: int) -> dict[str, float]:
    least, median, p90, most = (math.log1p(found[key]) / math.log1p(longest) for key in ("min", "median", "p90", "max"))
    return {"from": least, "width": p90 - least, "at": median, "most": most}
