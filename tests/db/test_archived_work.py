"""Pipelines, branches and comparisons of an archived workload: none begins, and those there are can still be shown."""

import pytest

from evaluations.management.commands.comparisons import Command as Comparisons
from evaluations.management.commands.pipelines import Command as Pipelines
from evaluations.models import Comparison, Pipeline
from evaluations.operations.comparisons import Wish, advance_comparisons, create_comparison
from evaluations.operations.pipelines import advance_pipelines, cancel_pipeline, resume_pipeline, start_pipeline
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import OperationError
from registry.errors import WorkInProgress, WorkloadArchived
from registry.operations.workloads import archive_workload
from registry.workload_queries import get_workload
from runs.errors import RunRefused
from runs.models import Run
from runs.operations import sweep_runs, tend_snapshots
from tests.db.test_comparisons import branch, parent, score, source  # noqa: F401 - a fixture
from tests.db.test_pipelines import pipeline, ready, state  # noqa: F401 - fixtures
from tests.playing import complete

pytestmark = pytest.mark.django_db


def archive():
    return archive_workload(get_workload("triage"), actor=LOCAL)


def shows(capsys, command, *argv):
    assert command().run(list(argv)) == 0
    return capsys.readouterr().out


@pytest.fixture
def cancelled(ready):  # noqa: F811
    """A pipeline of the workload, which is then archived."""
    row = start_pipeline(pipeline(ready), actor=LOCAL).pipeline
    cancel_pipeline(row, actor=LOCAL)
    advance_pipelines()
    archive()
    return row


@pytest.mark.requirement("R297")
def test_no_pipeline_begins_or_is_taken_up_again(cancelled):
    for attempt in (lambda: start_pipeline(pipeline("triage"), actor=LOCAL),
                    lambda: resume_pipeline(cancelled, actor=LOCAL)):
        with pytest.raises(OperationError) as refused:
            attempt()
        told = getattr(refused.value, "problems", None) or [refused.value]
        assert {problem.code for problem in told} == {"workload_archived"}
        assert all("workloads unarchive triage" in problem.hint for problem in told)
    assert Pipeline.objects.get().phase == "CANCELLED"


@pytest.mark.requirement("R297", "R299")
def test_its_pipelines_are_listed_where_they_are_asked_for_and_marked(cancelled, capsys):
    assert cancelled.pk[:12] not in shows(capsys, Pipelines, "list")
    for argv in (["list", "--archived"], ["list", "--project", "triage"], ["get", cancelled.pk]):
        shown = shows(capsys, Pipelines, *argv)
        assert cancelled.pk[:12] in shown and "triage (archived)" in shown


@pytest.mark.requirement("R297")
def test_no_branch_and_no_point_of_a_sweep_begins(parent):  # noqa: F811
    archive()
    rates = {"axes": [{"path": "hyperparams.optimizer.learningRate", "values": [1e-5, 2e-5]}]}
    for submit in (lambda: branch(parent, 1), lambda: sweep_runs(source(parent), steps=3, grid=rates, actor=LOCAL)):
        with pytest.raises(RunRefused) as refused:
            submit()
        assert {problem.code for problem in refused.value.problems} == {"workload_archived"}
        assert "workloads unarchive triage" in refused.value.problems[0].hint
    assert Run.objects.count() == 1


@pytest.mark.requirement("R297", "R298", "R299")
def test_a_workload_is_archived_once_its_comparisons_are_over_and_takes_none_afterwards(parent, capsys):  # noqa: F811
    wish = Wish(source(parent).pk, dataset="support/eval", branches=(complete(branch(parent, 1)).pk,))
    row = create_comparison(wish, actor=LOCAL).comparison
    tend_snapshots()
    with pytest.raises(WorkInProgress) as refused:
        archive()
    assert f"comparison {row.pk[:12]} (PREPARING)" in refused.value.detail
    assert f"comparisons get {row.pk[:12]}" in refused.value.problems[0].hint
    advance_comparisons()
    score(row, 0.5, 0.75)
    archive()
    with pytest.raises(WorkloadArchived):
        create_comparison(wish, actor=LOCAL)
    assert Comparison.objects.count() == 1
    assert row.pk[:12] not in shows(capsys, Comparisons, "list")
    for argv in (["list", "--archived"], ["list", "--project", "triage"], ["get", row.pk]):
        assert "triage (archived)" in shows(capsys, Comparisons, *argv)
