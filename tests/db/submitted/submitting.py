"""Descriptors as these tests submit them, and runs put into a phase."""

from optimize_site.kernel.auth import LOCAL, Actor
from runs.models import Run
from runs.operations import check_run, submit_run
from tests.factories import run_document

VIEWER, OPERATOR = Actor("eve", "viewer"), Actor("olga", "operator")


def submit(**changes):
    return submit_run(run_document(**changes), actor=LOCAL).run


def check(**changes):
    return check_run(run_document(**changes), actor=LOCAL)


def problems_of(**changes):
    return {problem["path"]: problem["code"] for problem in check(**changes)["problems"]}


def set_phase(run, phase, **columns):
    Run.objects.filter(pk=run.pk).update(phase=phase, **columns)
    run.refresh_from_db()
    return run
