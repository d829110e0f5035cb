"""Routes of what reinforcement runs sampled and scored. A run is named by its ID or the beginning of it."""

from functools import partial
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router

from optimize_site.kernel.api import DEFAULT_LIMIT, page
from runs import queries
from runs.rollouts import queries as rollout_queries
from runs.rollouts.queries import Asked
from runs.rollouts.render import rollouts_document
from runs.rollouts.rewards import distribution_document, reward_document

router = Router(tags=["rollouts"])


@router.get("/{run_id}/rollouts")
def run_rollouts(request: HttpRequest, run_id: str, step: int | None = None, everyStep: bool = False, worst: int = 0,
                 best: int = 0, search: str = "", term: str = "", row: int | None = None,
                 limit: int = rollout_queries.DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """The scored completions of an update (the newest kept one), at most 200, and every update that is kept.

    In the order in which they were scored, or the `worst` and the `best` so many, by their reward or by the share of a
    `term`; those that hold a text, or answer a `row` of the dataset. `everyStep` looks through all updates.
    """
    asked = Asked(step=step, every_step=everyStep, search=search, row=row, term=term)
    return rollouts_document(queries.get_run(run_id), asked, worst=worst, best=best, limit=limit, offset=offset)


@router.get("/{run_id}/rewards")
def run_rewards(request: HttpRequest, run_id: str, step: int | None = None) -> dict[str, Any]:
    """What the reward did: its terms, failures by cause, signs of hacking, how one update's figures are spread."""
    return reward_document(queries.get_run(run_id), step)


@router.get("/{run_id}/histograms")
def run_histograms(request: HttpRequest, run_id: str, limit: int = Query(DEFAULT_LIMIT), offset: int = 0
                   ) -> dict[str, Any]:
    """Each update's rewards, shares of terms and lengths as histograms and percentiles, oldest first."""
    run = queries.get_run(run_id)
    rollout_queries.check_method(run)
    render = partial(distribution_document, terms=rollout_queries.terms_of(run))
    return page(run.rollout_steps.order_by("step"), "steps", render, limit=limit, offset=offset)
