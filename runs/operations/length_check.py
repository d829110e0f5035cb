"""Checking a run's rows before it claims a device: by analyses, which a submission starts and the queue waits for."""

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from optimize_site.kernel import clock, doorbell
from optimize_site.kernel.auth import SYSTEM, Actor
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import Problem
from registry.base_model_queries import BaseModelState, base_model_state
from runs.facts import Facts
from runs.lengths import Measured, check_document, lengths_document, need_of, refusals
from runs.measurements import Subject, look_up, start_missing
from runs.models import Run
from runs.resolve import Resolved
from runs.smoke import slice_size

WAITING, CHECKED, NOT_RUN = "waiting", "checked", "not_run"


def measure(resolved: Resolved, facts: Facts) -> tuple[list[Problem], dict[str, Any] | None]:
    """What the analyses there are refuse of a descriptor, and its `lengths`; None where it has no rows to measure.
    Of a smoke check's training rows only its slice counts. Starts nothing."""
    subject = _subject_of(resolved, facts)
    if subject is None:
        return [], None
    found = look_up(subject)
    return refusals(subject.need, subject.limit, found), lengths_document(subject.limit, subject.need, found)


def _subject_of(resolved: Resolved, facts: Facts) -> Subject | None:
    if facts.base_model is None or facts.dataset is None:
        return None
    need = need_of(resolved.method, resolved.config, resolved.execution)
    state = base_model_state(facts.base_model.entry.repository)
    if need is None or state is None:
        return None
    return Subject(need, resolved.config["maxSeqLength"], resolved.references, state,
                   slice_size(resolved.smoke))


def subject_of_run(run: Run, state: BaseModelState) -> Subject | None:
    """A submitted run as its rows' lengths see it; None for one whose rows are prompts."""
    need = need_of(run.method, run.config, run.execution)
    if need is None:
        return None
    return Subject(need, run.config["maxSeqLength"], run.references, state, slice_size(run.smoke))


def start_analyses(run: Run, *, actor: Actor) -> None:
    """Start what the run will wait for as soon as it is submitted, while its base model may still be on its way."""
    state = base_model_state(run.base_model)
    subject = subject_of_run(run, state) if state is not None else None
    if subject is not None and subject.need.waits:
        start_missing(subject, actor=actor)


def opening_of(run: Run) -> dict[str, Any]:
    """A run's `length_check` when it joins the queue: it waits there, unless it was checked before or needs nothing."""
    if run.length_check or need_of(run.method, run.config, run.execution) is None:
        return dict(run.length_check)
    return check_document(WAITING, [], since=clock.now().isoformat())


def check_lengths(run: Run) -> list[Problem]:
    """Take the check as far as it goes: start what is missing, and settle it once nothing more is to be learned.

    Gives what refuses the run. A check that cannot complete is recorded as not run, and the job refuses what it meets.
    """
    if run.length_check.get("status") != WAITING:
        return []
    state = base_model_state(run.base_model)
    subject = subject_of_run(run, state) if state is not None else None
    if subject is None:
        return []
    found = look_up(subject)
    if subject.need.waits and any(measured.status == "no_analysis" for measured in found):
        start_missing(subject, actor=SYSTEM)
        found = look_up(subject)
    _keep(run, _judge(run, subject, found))
    return refusals(subject.need, subject.limit, found)


def _judge(run: Run, subject: Subject, found: list[Measured]) -> dict[str, Any]:
    # One that lies ahead was written before the clock was set back: the wait begins again.
    begun = min(datetime.fromisoformat(run.length_check["since"]), clock.now())
    since = begun.isoformat()
    open_ones = [measured for measured in found if not measured.is_settled]
    if not open_ones:
        failed = [measured for measured in found if measured.status not in {"done", "recorded"}]
        return check_document(NOT_RUN if failed else CHECKED, found, since=since,
                              note=" ".join(measured.note for measured in failed))
    if not subject.need.waits:
        return check_document(NOT_RUN, found, since=since, note="A run on several devices uses an analysis only where "
                              "one is done already.")
    minutes = float(setting("trainer.analyses.wait-minutes"))
    if clock.now() - begun >= timedelta(minutes=minutes):
        return check_document(NOT_RUN, found, since=since, note=f"The analysis was not done within {minutes:g} "
                              f"minutes. {open_ones[0].note}")
    return check_document(WAITING, found, since=since, note=open_ones[0].note)


def _keep(run: Run, document: dict[str, Any]) -> None:
    if document == run.length_check:
        return
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(length_check=document)
        if document["status"] != WAITING:
            doorbell.ring_devices()
    run.length_check = document
