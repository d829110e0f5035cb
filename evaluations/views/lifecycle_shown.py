"""What home and search show of pipelines and comparisons."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.urls import reverse

from evaluations.comparison_queries import list_comparisons
from evaluations.models import Pipeline
from evaluations.pipeline_queries import list_pipelines
from evaluations.pipeline_render import pipeline_row
from evaluations.views.pipelines import name_of
from optimize_site.kernel import clock
from optimize_site.kernel.feeds import Item, feed, finder
from optimize_site.kernel.ids import looks_like_id


def _item(row: Pipeline) -> Item:
    found = pipeline_row(row)
    share = found["stagesDone"] / found["stagesTotal"] if found["stagesTotal"] else None
    note = f"{found['stagesDone']} of {found['stagesTotal']} stages"
    return Item("Pipeline", name_of(row), reverse("evaluations:pipeline", args=[row.pk]), row.phase, share=share,
                detail=f"{row.workload.name}{' · at ' + found['stage'] if found['stage'] else ''}", note=note,
                at=row.created_at)


@feed("now", 30)
def running(_: Any) -> Iterator[Item]:
    """Pipelines that are under way; their stages stand among the runs and evaluations."""
    yield from map(_item, list_pipelines(phase="open"))


@feed("attention", 25)
def failed(_: Any) -> Iterator[Item]:
    """Pipelines that failed in the last days, with the reason."""
    since = clock.now() - timedelta(days=3)
    for row in list_pipelines(phase="failed").filter(ended_at__gte=since)[:5]:
        yield Item("Pipeline", name_of(row), reverse("evaluations:pipeline", args=[row.pk]), row.phase, at=row.ended_at,
                   detail=row.failure_reason)


@finder
def named(text: str) -> Iterator[Item]:
    """Pipelines by part of their note, and pipelines and comparisons by the beginning of their ID."""
    found = list_pipelines(archived=True)
    yield from map(_item, found.filter(description__icontains=text)[:5])
    if looks_like_id(text.lower()):
        yield from map(_item, found.filter(pk__startswith=text.lower())[:5])
        for row in list_comparisons(archived=True).filter(pk__startswith=text.lower())[:5]:
            yield Item("Comparison", f"Comparison {row.pk[:12]}", reverse("evaluations:comparison", args=[row.pk]),
                       row.phase, detail=row.workload.name, at=row.created_at)
