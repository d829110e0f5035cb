"""A smoke check on its run's page: the verdict, and the rows that were not reproduced."""

from typing import Any

from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed
from runs import queries
from runs.models import Run
from runs.smoke import SHORT, TONES, words

TAB = ("smoke", "Smoke check")
ROWS_A_PAGE = 20


def smoke_note(run: Run) -> dict[str, Any] | None:
    """The verdict as the page shows it at its top; None for a run that is no smoke check."""
    if run.smoke is None:
        return None
    verdict = run.smoke.get("verdict")
    return {"words": words(run.smoke), "tone": TONES.get(verdict or "", "warn" if verdict else ""), "verdict": verdict,
            "short": SHORT.get(verdict or ""),
            "missed": run.smoke["scored"] - run.smoke["reproduced"] if run.smoke.get("scored") else 0}


def smoke_tab(request: HtmxRequest, run: Run) -> dict[str, Any]:
    """The rows that were not reproduced, in their order. Raises NotFound for a run that is no smoke check."""
    return listed(request, queries.missed_of(run), limit=ROWS_A_PAGE)
