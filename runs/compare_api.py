"""The route that puts runs beside each other. It stands before the route of one run, whose ID it would else be."""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from runs import queries
from runs.comparing import compare_runs
from runs.loss_windows import Terms

router = Router(tags=["runs"])


@router.get("/compare")
def compare(request: HttpRequest, run: list[str] = Query(...), window: int = Terms.window,  # noqa: B008
            margin: float = Terms.margin, spikeFactor: float = Terms.spike_factor,
            acrossPlans: bool = False, figure: str = "") -> dict[str, Any]:
    """A figure of runs against the first one's: mean difference a window of updates, spikes, where they part.

    `figure` is loss, validationLoss, preferenceAccuracy, rewardMargin, reward or kl, as far as their method reports it;
    left out, its main one.
    """
    terms = Terms(window, margin, spikeFactor, acrossPlans, figure)
    return compare_runs([queries.get_run(text) for text in run], terms)
