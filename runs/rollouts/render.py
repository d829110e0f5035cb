"""Rollouts as the API shows them."""

from typing import Any

from optimize_site.kernel.errors import InvalidInput
from runs.models import Rollout, Run
from runs.rollouts import queries
from runs.rollouts.queries import DEFAULT_LIMIT, MOST, Asked
from runs.rollouts.text_index import SLOWLY, has_text_index


def rollouts_document(run: Run, asked: Asked, *, worst: int = 0, best: int = 0, limit: int = DEFAULT_LIMIT,
                      offset: int = 0) -> dict[str, Any]:
    """A page of completions in the order in which they were scored, or the `worst` and then the `best`.

    A number above 200 counts as 200. Raises NotFound, InvalidInput.
    """
    _refuse(asked, worst, best, limit, offset)
    places = queries.places_of(run, asked)
    step = None if asked.every_step else queries.get_step(run, asked.step)
    found = _extremes(run, asked, worst, best) if worst or best else queries.in_order(
        places[offset:offset + min(limit, MOST)])
    return {"runId": run.pk, "step": step.step if step else None, "rollouts": [rollout_document(row) for row in found],
            "total": len(places), "limit": len(found) if worst or best else min(limit, MOST), "offset": offset,
            "steps": queries.steps_of(run), "terms": queries.terms_of(run), "note": queries.note_of(run),
            "searchNote": slow_search(asked)}


def slow_search(asked: Asked) -> str:
    """That a search over every update reads each rollout, where the database cannot help it."""
    return SLOWLY if asked.search.strip() and asked.every_step and not has_text_index() else ""


def _refuse(asked: Asked, worst: int, best: int, limit: int, offset: int) -> None:
    """What cannot be answered, and what would count for nothing beside the rest."""
    for name, value, least in (("worst", worst, 0), ("best", best, 0), ("limit", limit, 1), ("offset", offset, 0),
                               ("row", asked.row or 0, 0)):
        if value < least:
            raise InvalidInput(f"{name} is {value}; it must be at least {least}.", code=f"invalid_{name}")
    if offset and (worst or best):
        raise InvalidInput(f"offset is {offset}; the worst and the best are the first ones.", code="invalid_offset",
                           hint="Leave offset out, or page through all of them without worst and best.")
    if asked.term and not (worst or best):
        raise InvalidInput(f"term is {asked.term!r}; it says by what the worst and the best are, and neither is asked "
                           "for.", code="invalid_term", hint="Ask for worst or best, or leave term out.")
    if asked.every_step and asked.step is not None:
        raise InvalidInput(f"step is {asked.step}, and everyStep asks for all updates.", code="invalid_step",
                           hint="Leave one of them out.")


def _extremes(run: Run, asked: Asked, worst: int, best: int) -> list[Rollout]:
    """The worst, then the best, none of them twice."""
    low = list(queries.rollouts_of(run, asked, worst=True)[:min(worst, MOST)])
    return [*low, *queries.best_beside(run, asked, low, min(best, MOST))]


def rollout_document(row: Rollout) -> dict[str, Any]:
    """One scored completion."""
    return {"step": row.step, "group": row.group, "index": row.index, "row": row.row, "attempt": row.attempt,
            "prompt": row.prompt, "tools": row.tools, "completion": row.completion, "tokens": row.tokens,
            "finish": row.finish, "score": row.score, "advantage": row.advantage, "excluded": row.excluded,
            "terms": row.terms}
