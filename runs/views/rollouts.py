"""The rollouts of a run: an update's worst and best side by side, all of them, and one prompt through the updates."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from optimize_site.kernel.errors import InvalidInput, OperationError
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed, whole
from optimize_site.kernel.marking import mark_difference
from runs import queries
from runs.models import Rollout, RolloutStep, Run
from runs.rollouts import queries as kept
from runs.rollouts.pictures import plot_spread
from runs.rollouts.queries import Asked
from runs.rollouts.render import slow_search
from runs.rollouts.rewards import distribution_document
from runs.rollouts.text import groups_words
from runs.rollouts.variety import most_repeated, said
from runs.views.naming import title

ENDS, A_PAGE, REPEATED = 5, 20, 8


@require_GET
def page(request: HtmxRequest, run_id: str) -> HttpResponse:
    """One update's rollouts; a text that is searched for, or a way of looking, narrows them down."""
    run = queries.get_run(run_id)
    context: dict[str, Any] = {"run": run, "title": title(run), "rewarded": kept.trains_on_rewards(run)}
    if not context["rewarded"]:
        return render(request, "runs/rollouts.html", context)
    try:
        asked = _asked(request)
        context |= {"asked": asked, "note": kept.note_of(run)} | _step(run, kept.get_step(run, asked.step))
        context |= _shown(request, run, asked)
    except OperationError as error:
        context |= {"error": error} | _step(run, kept.get_step(run))
        return render(request, "runs/rollouts.html", context, status=error.status)
    return render(request, "runs/rollouts.html", context)


def _asked(request: HtmxRequest) -> Asked:
    sent = request.GET
    return Asked(step=_number_of(sent["step"]) if sent.get("step") else None, search=sent.get("search", "").strip(),
                 every_step=sent.get("everywhere") == "yes", term=sent.get("term", ""))


def _number_of(text: str) -> int:
    """The update that somebody typed. Raises InvalidInput."""
    try:
        return int(text)
    except ValueError as error:
        raise InvalidInput(f"{text[:40]!r} is no update.", code="invalid_step", hint="Write its number.") from error


def _step(run: Run, step: RolloutStep | None) -> dict[str, Any]:
    """The chosen update, its neighbours, how its figures are spread, what was said more than once."""
    if step is None:
        return {"step": None}
    steps = kept.steps_of(run)
    place = steps.index(step.step)
    return {"step": step, "steps": steps, "previous": steps[place - 1] if place else None,
            "following": steps[place + 1] if place + 1 < len(steps) else None, "newest": steps[-1],
            "spreads": _spreads(distribution_document(step, kept.terms_of(run))),
            "repeated": _repeated(run, step.step), "terms": kept.terms_of(run)}


def _spreads(figures: dict[str, Any]) -> list[dict[str, Any]]:
    terms = [(f"Share of {name}", "share", spread) for name, spread in figures["terms"].items()]
    named = [("Reward", "reward", figures["total"]), *(terms if len(terms) > 1 else ()),
             ("Completion length, tokens", "tokens", figures["length"])]
    return [{"title": name, "plot": plot_spread(spread, unit), "groups": groups_words(spread["twoGroups"])}
            for name, unit, spread in named if spread is not None]


def _repeated(run: Run, step: int) -> list[dict[str, Any]]:
    """The texts that the update's completions have in common, with what they scored on average."""
    found = list(run.rollouts.filter(step=step).values_list("group", "completion", "score"))
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for _, text, score in found:
        scores[said(text)] += [] if score is None else [score]
    texts = most_repeated([(group, text) for group, text, _ in found], REPEATED)
    return [{"text": text, "count": count, "prompts": prompts,
             "score": sum(scores[text]) / len(scores[text]) if scores[text] else None}
            for text, count, prompts in texts]


def _shown(request: HtmxRequest, run: Run, asked: Asked) -> dict[str, Any]:
    """The worst and the best, or a page of those that were searched for or asked for in their order."""
    if not (asked.search or asked.every_step or request.GET.get("show") == "all"):
        worst = list(kept.rollouts_of(run, asked, worst=True)[:ENDS])
        cards = _cards([*worst, *kept.best_beside(run, asked, worst, ENDS)])
        return {"sides": [{"title": "Worst", "rows": cards[:len(worst)]},
                          {"title": "Best", "rows": cards[len(worst):]}]}
    found = listed(request, kept.places_of(run, asked), limit=A_PAGE)
    return found | {"rows": _cards(kept.in_order(found["rows"])), "is_list": True, "search_note": slow_search(asked)}


def _cards(rows: Iterable[Rollout]) -> list[dict[str, Any]]:
    """Rollouts with the shares of their terms as bars, the widest being the largest share among them."""
    found = list(rows)
    widest = max((abs(term["share"] or 0.0) for row in found for term in row.terms), default=0.0) or 1.0
    return [{"row": row, "terms": [term | {"width": abs(term["share"] or 0.0) / widest,
                                           "is_negative": (term["share"] or 0.0) < 0} for term in row.terms]}
            for row in found]


@require_GET
def of_row(request: HtmxRequest, run_id: str, row: int) -> HttpResponse:
    """What the policy answered to one prompt in two updates, the best answers of the two marked where they differ."""
    run = queries.get_run(run_id)
    kept.check_method(run)
    history = kept.history_of(run, row)
    steps = [entry["step"] for entry in history]
    sides = [_side(run, row, _nearest(request.GET.get(name), steps, default))
             for name, default in (("from", 0), ("to", -1))] if steps else []
    return render(request, "runs/rollouts_row.html", {
        "run": run, "title": title(run), "row": row, "history": history, "sides": _marked(sides),
        "prompt": sides[0]["rows"][0]["row"].prompt if sides else []})


def _nearest(text: str | None, steps: Sequence[int], default: int) -> int:
    """The kept update nearest to the one that the address names."""
    if not text:
        return steps[default]
    wanted = whole(text)
    return min(steps, key=lambda step: (abs(step - wanted), step))


def _side(run: Run, row: int, step: int) -> dict[str, Any]:
    answers = _cards(kept.rollouts_of(run, Asked(step=step, row=row), worst=False))
    return {"step": step, "rows": answers, "best": answers[0]["row"]}


def _marked(sides: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not sides:
        return []
    before, after = mark_difference(*(side["best"].completion for side in sides))
    return [sides[0] | {"pieces": before}, sides[1] | {"pieces": after}]
