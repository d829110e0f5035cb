"""What home, search and datasets show of runs."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.urls import reverse

from optimize_site.kernel import clock
from optimize_site.kernel.errors import NotFound
from optimize_site.kernel.feeds import Item, feed, finder
from optimize_site.kernel.ids import looks_like_id
from optimize_site.kernel.scores import best_scores_of_models
from optimize_site.kernel.templatetags.ui import duration
from runs import queries
from runs.models import Run
from runs.outlook import Outlook, outlooks
from runs.phases import BEFORE_A_JOB, PHASES
from runs.views.naming import share, title


def _items(runs: Iterable[Run]) -> Iterator[Item]:
    found = list(runs)
    ahead = outlooks(found)
    yield from (_item(run, ahead[run.pk]) for run in found)


def _item(run: Run, outlook: Outlook) -> Item:
    eta = outlook.eta_seconds
    progress = share(run)
    note = f"about {duration(eta)} left" if eta is not None else f"{progress:.0%}" if progress is not None else ""
    return Item("Run", title(run), reverse("runs:detail", args=[run.pk]), run.phase, detail=_over(run),
                share=progress if run.phase in PHASES.active else None, note=note, at=run.created_at)


def _over(run: Run) -> str:
    return f"{run.workload.name} · {run.base_model}"


@feed("now", 10)
def running(_: Any) -> Iterator[Item]:
    """Runs whose job holds a device, and those being recorded."""
    yield from _items(run for run in queries.open_runs() if run.phase not in BEFORE_A_JOB)


@feed("waiting", 10)
def waiting(_: Any) -> Iterator[Item]:
    """Runs that wait, and why."""
    found = list(queries.open_runs().filter(phase__in=BEFORE_A_JOB))
    ahead = outlooks(found)
    for run in found:
        yield Item("Run", title(run), reverse("runs:detail", args=[run.pk]), run.phase,
                   detail=ahead[run.pk].wait_reason or _over(run), at=run.created_at)


@feed("attention", 10)
def failed(_: Any) -> Iterator[Item]:
    """Runs that failed in the last days, with the reason and the next step."""
    since = clock.now() - timedelta(days=3)
    for run in queries.list_runs(phase="failed").filter(ended_at__gte=since)[:5]:
        yield Item("Run", title(run), reverse("runs:detail", args=[run.pk]), run.phase, at=run.ended_at,
                   detail=f"{run.failure_reason} {run.failure_hint}".strip())


@feed("attention", 30)
def not_scored(_: Any) -> Iterator[Item]:
    """Models of lately completed runs that nothing has scored."""
    made = [(run, run.model) for run in queries.list_runs(phase="completed")[:10] if run.model is not None]
    scores = best_scores_of_models(model.pk for _, model in made)
    for run, model in made:
        if model.pk not in scores:
            yield Item("Model", model.reference, reverse("evaluations:model", args=[model.pk]), "UNSCORED",
                       detail="Nothing has scored it on its workload's evaluation data yet.", at=run.ended_at)


@feed("checklist", 40)
def start_one(_: Any) -> Iterator[Item]:
    """The last step of a new box."""
    yield Item("", "Start a run", reverse("runs:new"), action="New run", is_done=queries.all_runs().exists(),
               detail="The form fills in every setting and says what is wrong before anything starts.")


@feed("uses", 10)
def uses_of_dataset(version: Any) -> Iterator[Item]:
    """Runs that trained or validated on a dataset version."""
    for name, words in (("dataset", "Trained on it"), ("validationDataset", "Validated on it")):
        found = queries.all_runs().filter(**{f"references__{name}__versionId": version.pk}).order_by("-created_at")
        for run in found[:20]:
            yield Item("Run", title(run), reverse("runs:detail", args=[run.pk]), run.phase, detail=words,
                       at=run.created_at)


@finder
def runs_named(text: str) -> Iterator[Item]:
    """Runs by the beginning of their ID, or by part of their configuration's name or description."""
    found = queries.all_runs().order_by("-created_at")
    if looks_like_id(text.lower()):
        try:
            yield from _items([queries.get_run(text)])
        except NotFound:
            yield from _items(found.filter(pk__startswith=text.lower())[:10])
        return
    yield from _items(found.filter(config_name__icontains=text)[:10])
    yield from _items(found.filter(description__icontains=text).exclude(config_name__icontains=text)[:5])
