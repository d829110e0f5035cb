"""What a reinforcement run's reward does, on its page: figures at the top, curves, and a tab of its own."""

from typing import Any

from optimize_site.kernel.htmx import HtmxRequest
from runs.models import Run
from runs.pages import curves_of
from runs.rollouts import queries
from runs.rollouts.curves import FAILURES, reward_curves
from runs.rollouts.pictures import plot_map
from runs.rollouts.rewards import reward_document, weights_of
from runs.rollouts.text import groups_words

TAB = ("rewards", "Rewards")
MOST_TERMS = 4
"""Terms whose spreads are all shown; of more, one is chosen."""
FIGURES = ("reward", "kl", "zero_variance_groups", "completion_mean")


def reward_note(run: Run) -> dict[str, Any] | None:
    """The newest figures of a run that learns from rewards, and the first reward; None for any other."""
    if not queries.trains_on_rewards(run):
        return None
    rewarded = run.metrics.filter(values__has_key="reward").order_by("step")
    first, last = rewarded.first(), rewarded.last()
    values = last.values if last else {}
    return {name: values.get(name) for name in FIGURES} | {"first": first.values["reward"] if first else None}


def curves(run: Run) -> list[dict[str, Any]]:
    """The curves of a run's page; a reward's come before the trainer's own."""
    others = curves_of(run.method)
    if not queries.trains_on_rewards(run):
        return others
    causes = [name.removeprefix(FAILURES) for name in queries.figure_names(run, FAILURES)]
    return [*reward_curves(list(weights_of(run)), causes), *(curve | {"is_big": False} for curve in others)]


def rewards_tab(request: HtmxRequest, run: Run) -> dict[str, Any]:
    """The reward's terms, its failures, signs of hacking, and its spread over the updates."""
    found = reward_document(run)
    names = [str(term["name"]) for term in found["terms"]]
    is_chosen = len(names) > MOST_TERMS
    wanted = request.GET.get("term", "")
    term = (wanted if wanted in names else names[0]) if is_chosen else ""
    shown = [term] if is_chosen else names if len(names) > 1 else []
    return {"found": found, "judges": _judges(run), "maps": _maps(run, shown), "term": term,
            "names": names if is_chosen else [], "groups": _groups(found["distributions"])}


def _judges(run: Run) -> list[dict[str, Any]]:
    """The judges of the reward, each with the names of the terms that ask it and what it is told for them."""
    found: dict[str, dict[str, Any]] = {}
    for term in run.references.get("reward") or ():
        if judge := term.get("judge"):
            entry = found.setdefault(judge["modelId"], {"model": judge["model"], "id": judge["modelId"], "terms": []})
            entry["terms"].append({"name": term["name"], "told": judge["instructions"],
                                   "source": judge["instructionsSource"]})
    return list(found.values())


def _maps(run: Run, terms: list[str]) -> list[dict[str, Any]]:
    """The maps of the reward, of these terms' shares and of the length; a single term is the reward itself."""
    kept = queries.sampled_histograms(run, terms)
    named = [("Reward", "reward", [(step, spread["total"]) for step, spread in kept]),
             *((f"Share of {name}", f"share of {name}", [(step, spread["terms"][name]) for step, spread in kept])
               for name in terms),
             ("Completion length, tokens", "length", [(step, spread["length"]) for step, spread in kept])]
    plotted = ((title, plot_map([(step, spread) for step, spread in steps if spread], unit))
               for title, unit, steps in named)
    return [{"title": title, "plot": plot} for title, plot in plotted if plot is not None]


def _groups(spreads: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Which figures of the newest update fall in two, in words."""
    if spreads is None:
        return []
    named = {"The reward": spreads["total"], **{f"The share of {name}": spread
                                                for name, spread in spreads["terms"].items()}}
    return [(name, words) for name, spread in named.items()
            if spread is not None and (words := groups_words(spread["twoGroups"])) is not None]
