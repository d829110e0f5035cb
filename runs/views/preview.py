"""What would be trained, token by token: beside the form of a new run, and on a run's page."""

from collections.abc import Callable
from itertools import groupby
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.htmx import HtmxRequest
from runs import queries
from runs.operations.preview import preview_descriptor, preview_run
from runs.preview_text import SHOWN, heading, num_rows
from runs.views.new import posted_document

# A token that is white space, or a part of a character, is shown by a sign, so that each token can be seen.
SIGNS = {"\n": "⏎\n", "\t": "⇥", "": "◌"}


@require_POST
def of_form(request: HtmxRequest) -> HttpResponse:
    """The first rows of what the form holds now."""
    return _answer(request, lambda: preview_descriptor(posted_document(request), actor=actor_of(request)))


@require_GET
def of_run(request: HtmxRequest, run_id: str) -> HttpResponse:
    """The first rows of a submitted run."""
    run = queries.get_run(run_id)
    return _answer(request, lambda: preview_run(run, actor=actor_of(request)))


def _answer(request: HtmxRequest, make: Callable[[], dict[str, Any]]) -> HttpResponse:
    try:
        found = make()
    except OperationError as error:
        return render(request, "runs/_preview.html", {"error": error})
    rows = [{"heading": heading(row), "is_trained": row["state"] in SHOWN, "runs": _stretches(row)}
            for row in found["rows"]]
    return render(request, "runs/_preview.html", {"found": found, "rows": rows, "num_rows": num_rows(found)})


def _stretches(row: dict[str, Any]) -> list[tuple[bool, list[dict[str, Any]]]]:
    """The row's tokens in stretches that are trained or not."""
    if row["state"] not in SHOWN:
        return []
    tokens = [{"place": place, "id": number, "text": _shown(piece), "is_special": special, "is_trained": bool(trained)}
              for place, (number, piece, trained, special) in enumerate(
                  zip(row["ids"], row["pieces"], row["mask"], row["special"], strict=True))]
    return [(trained, list(part)) for trained, part in groupby(tokens, lambda token: token["is_trained"])]


def _shown(piece: str) -> str:
    return SIGNS.get(piece, piece.replace("\n", "⏎\n"))
