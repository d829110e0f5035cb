"""One dataset at one of its versions: its rows, what they hold, leaks, versions and names, lineage and use."""

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET

from datasets import queries
from datasets.formats.eval_items import FORMAT as ITEMS
from datasets.models import ExampleSet
from datasets.pairs import FORMAT as PREFERENCE
from datasets.views import analyses, contents, kin, leaks, reading
from datasets.views.terminal import same_from_a_terminal
from optimize_site.kernel.htmx import HtmxRequest
from registry.models import Version
from registry.queries import get_artifact, get_version, newest

Tab = Callable[[HtmxRequest, Version, ExampleSet], dict[str, Any]]
TABS: dict[str, tuple[str, Tab]] = {
    "rows": ("Rows", reading.rows_tab), "contents": ("What they hold", contents.contents_tab),
    "lengths": ("Lengths", analyses.lengths_tab),
    "leakage": ("Leakage", leaks.leakage_tab), "versions": ("Versions and names", kin.versions_tab),
    "lineage": ("Lineage and use", kin.lineage_tab)}
UNITS = {PREFERENCE: "Pairs", ITEMS: "Items"}


@require_GET
def detail(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """The page of a dataset, with one tab of it; HTMX asks for the tab alone."""
    artifact = get_artifact(queries.KIND, f"{namespace}/{name}")
    label = request.GET.get("version", "")
    version = get_version(artifact, label) if label else newest(artifact)
    if version is None:
        return redirect("datasets:list")
    examples = queries.example_set(version)
    tab = request.GET.get("tab", "")
    tab = tab if tab in TABS else "rows"
    context = {"artifact": artifact, "version": version, "examples": examples, "tab": tab,
               "unit": UNITS.get(examples.format, "Rows"),
               "tabs": [(key, text) for key, (text, _) in TABS.items()], "tab_template": f"datasets/tab_{tab}.html"}
    context |= TABS[tab][1](request, version, examples)
    context["command"], context["route"] = same_from_a_terminal(tab, version, context)
    template = "datasets/detail.html#tab" if request.htmx else "datasets/detail.html"
    return render(request, template, context)
