"""A run on the operator's Grafana dashboard: the link, from the run's start to its end."""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from optimize_site.kernel import clock
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import NotFound, Refused
from runs import queries
from runs.models import Run

SETTING = "web.grafana-dashboard"


def grafana_link(run: Run, *, page: str, attempt: int | None = None) -> dict[str, Any]:
    """Where Grafana shows the run: the dashboard of the setting, over the time of the run or of one attempt of it.

    `page` is the run's own page, which takes its place where no dashboard is set. The link carries no token: Grafana
    asks who follows it, so it does not expire. Raises NotFound for an attempt that the run does not have, and Refused
    where the setting is no address.
    """
    begin, end = _time_of(run, attempt)
    dashboard = dashboard_address()
    return {"runId": run.pk, "attempt": attempt, "isDashboard": bool(dashboard), "from": begin, "to": end,
            "expiresAt": None, "url": _over(dashboard, run, begin, end, attempt) if dashboard else page}


def shown_link(run: Run) -> str:
    """The link for a page: empty where no dashboard is set, or one that nobody can go to."""
    try:
        found = grafana_link(run, page="")
    except Refused:
        return ""
    return str(found["url"])


def dashboard_address() -> str:
    """The address that the operator set, empty where none is. Raises Refused where it is no address."""
    address = str(setting(SETTING))
    if address and not _leads_somewhere(address):
        raise Refused(f"The setting {SETTING} is {address!r}, which is no address of a dashboard.",
                      code="grafana_address", hint="Set it to one, for instance https://grafana.example/d/runs/optimize.")
    return address


def _leads_somewhere(address: str) -> bool:
    try:
        return address.startswith(("http://", "https://")) and bool(urlsplit(address).hostname)
    except ValueError:  # a host in brackets that is none
        return False


def _time_of(run: Run, number: int | None) -> tuple[datetime, datetime]:
    if number is None:
        first = queries.attempts_of(run).first()
        return first.started_at if first else run.created_at, run.ended_at or clock.now()
    attempt = queries.attempts_of(run).filter(number=number).first()
    if attempt is None:
        raise NotFound(f"The run {run.pk[:12]} has no attempt {number}; it has had {run.num_attempts}.",
                       code="attempt_unknown", hint="Name one of them, or leave --attempt out for the whole run.")
    return attempt.started_at, attempt.ended_at or clock.now()


def _over(dashboard: str, run: Run, begin: datetime, end: datetime, attempt: int | None) -> str:
    """The dashboard's address with the time in milliseconds and what its variables `run` and `attempt` are; whatever
    else the operator wrote into it stays as it is, such as `kiosk` or a variable of several values."""
    parts = urlsplit(dashboard)
    words = {"from": _millis(begin), "to": _millis(end), "var-run": run.pk}
    if attempt is not None:
        words["var-attempt"] = attempt
    kept = [word for word in parts.query.split("&") if word and word.partition("=")[0] not in words]
    return parts._replace(query="&".join([*kept, urlencode(words)])).geturl()


def _millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
