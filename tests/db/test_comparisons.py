"""Comparisons: the source becomes a model, every target is scored alike, and a winner is named only when all were."""

import json

import pytest
from django.test import Client
from django.utils import timezone

from evaluations.comparison_render import comparison_document
from evaluations.errors import ComparisonRefused, SubmissionConflict
from evaluations.management.commands.comparisons import Command
from evaluations.models import Comparison, Evaluation
from evaluations.operations import comparisons
from evaluations.operations.comparisons import Wish, advance_comparisons, create_comparison
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.graders import MalformedGrader
from registry.models import BaseModel, Workload
from runs.differences import differences
from runs.management.commands.runs import Command as RunsCommand
from runs.models import Run, Snapshot
from runs.operations import branch_run, register_candidate, tend_snapshots
from runs.operations.branching import Wish as Branch
from tests.factories import chat_rows, make_adapter, make_dataset, make_device, make_run, put_weights
from tests.playing import complete

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def parent(db):
    make_device()
    run = complete(make_run())
    put_weights(BaseModel.objects.get())
    make_dataset("support/eval", chat_rows(4, salt="held out"))
    return run


def source(parent):
    return Snapshot.objects.get(run=parent, step=2)


def branch(parent, seed):
    overrides = {"hyperparams": {"training": {"seed": seed}}}
    return branch_run(Branch(source(parent), 2, overrides=overrides), actor=LOCAL).run


def compare(parent, **changes):
    wish = Wish(source(parent).pk, dataset="support/eval", **changes)
    row = create_comparison(wish, actor=LOCAL).comparison
    tend_snapshots()
    advance_comparisons()
    return row


def score(row, *scores):
    for target, value in zip(row.targets.all(), scores, strict=True):
        ended = {"phase": "COMPLETED", "mean_score": value} if value is not None else {
            "phase": "FAILED", "failure_reason": "No device."}
        Evaluation.objects.filter(pk=target.evaluation_id).update(ended_at=timezone.now(), **ended)
    advance_comparisons()
    return comparison_document(Comparison.objects.get(pk=row.pk))


@pytest.mark.requirement("R017")
def test_a_snapshot_is_compared_with_every_completed_branch_on_the_same_rows(parent):
    first, second = complete(branch(parent, 1)), complete(branch(parent, 2))
    branch(parent, 3)
    row = compare(parent, all_branches=parent.pk)
    asked = {(target.evaluation.content_hash, target.evaluation.grader) for target in row.targets.all()}
    assert len(asked) == 1
    document = score(row, 0.5, 0.7, 0.6)
    assert (document["phase"], document["fan"], document["winnerRunId"]) == ("COMPLETED", 3, first.pk)
    assert [target["runId"] for target in document["targets"]] == [parent.pk, first.pk, second.pk]
    assert {found["path"] for found in document["targets"][1]["differences"]} >= {"hyperparams.training.seed"}


def test_every_model_is_scored_by_the_one_grader_however_it_was_written(parent):
    complete(branch(parent, 1))
    row = compare(parent, all_branches=parent.pk, grader=' exact: {"ignoreCase": true}')
    graders = {target.evaluation.grader for target in row.targets.all()}
    assert graders == {row.grader} == {'exact:{"ignoreCase":true}'}
    with pytest.raises(MalformedGrader) as refused:
        compare(parent, all_branches=parent.pk, grader="exakt")
    assert "'exakt' is no grader." in refused.value.detail


@pytest.mark.requirement("R017")
def test_where_one_was_not_scored_no_winner_is_named(parent):
    child = complete(branch(parent, 1))
    document = score(compare(parent, branches=(child.pk,)), 0.5, None)
    assert (document["phase"], document["winnerRunId"]) == ("PARTIAL", None)
    assert document["targets"][1]["reason"] == "No device."


def test_where_none_was_scored_it_failed(parent):
    child = complete(branch(parent, 1))
    assert score(compare(parent, branches=(child.pk,)), None, None)["phase"] == "FAILED"


def test_equal_scores_have_no_winner(parent):
    child = complete(branch(parent, 1))
    assert score(compare(parent, branches=(child.pk,)), 0.5, 0.5)["winnerRunId"] is None


@pytest.mark.parametrize(("changes", "told"), [
    ({}, "Nothing was selected"), ({"all_branches": "parent"}, "No branch of the source has completed"),
])
def test_a_comparison_of_nothing_is_refused(parent, changes, told):
    named = dict.fromkeys(changes, parent.pk)
    with pytest.raises(ComparisonRefused, match=told):
        compare(parent, **named)


def test_the_models_that_saves_of_one_run_became_are_compared_with_its_source(parent):
    later = Snapshot.objects.get(run=parent, step=4)
    candidate = register_candidate(later, actor=LOCAL)
    tend_snapshots()
    row = compare(parent, candidates=(candidate.pk[:12],))
    document = score(row, 0.5, 0.7)
    assert [target["modelId"] for target in document["targets"]] == [document["targets"][0]["modelId"], candidate.pk]
    assert (document["winnerModelId"], document["winnerRunId"]) == (candidate.pk, parent.pk)
    assert document["cost"]["trainingDeviceSeconds"] == round(parent.device_seconds, 1), "one run trained both"


def test_a_model_from_elsewhere_is_no_candidate(parent):
    elsewhere = make_adapter(parent.workload, BaseModel.objects.get())
    with pytest.raises(ComparisonRefused, match="was made by no run of this box"):
        compare(parent, candidates=(elsewhere.pk,))


def test_an_unfinished_run_is_not_compared(parent):
    with pytest.raises(ComparisonRefused, match="has made no model"):
        compare(parent, branches=(branch(parent, 1).pk,))


def test_more_models_than_one_comparison_scores_are_refused(parent, monkeypatch):
    monkeypatch.setattr(comparisons, "MOST_BRANCHES", 1)
    pair = complete(branch(parent, 1)).pk, complete(branch(parent, 2)).pk
    with pytest.raises(ComparisonRefused, match="2 models were selected; one comparison scores at most 1"):
        compare(parent, branches=pair)
    assert not Comparison.objects.exists()
    assert compare(parent, branches=pair[:1]).targets.count() == 2, "the source is scored beside them"


def test_the_same_submission_reaches_the_same_comparison(parent):
    child = complete(branch(parent, 1))
    first = compare(parent, branches=(child.pk,), submission_id="s")
    assert compare(parent, branches=(child.pk,), submission_id="s").pk == first.pk
    with pytest.raises(SubmissionConflict):
        compare(parent, candidates=(child.pk,), submission_id="s")


@pytest.mark.parametrize(("words", "told"), [
    (["--compare"], "--compare needs --dataset."),
    (["--compare", "--dataset", "support/eval", "--dry-run"], "does not go with --dry-run"),
    (["--dataset", "support/eval"], "go with --compare"),
    (["--compare", "--dataset", "support/none"], "support/none"),
    (["--compare", "--dataset", "support/eval", "--grader", "exakt"], "exakt"),
    (["--compare", "--dataset", "support/eval", "--max-completion-tokens", "100000"], "maxCompletionTokens"),
])
def test_a_sweep_says_what_its_comparison_lacks_before_anything_trains(parent, capsys, tmp_path, words, told):
    (tmp_path / "grid.yaml").write_text("axes: [{path: hyperparams.training.seed, values: [1]}]")
    sweep = ["sweep", parent.pk, "--snapshot", source(parent).pk, "--steps", "2", "-g", str(tmp_path / "grid.yaml")]
    assert RunsCommand().run([*sweep, *words]) != 0
    assert told in capsys.readouterr().err
    assert not Run.objects.filter(parent=parent).exists()


def test_a_sweep_that_compares_waits_for_its_branches_and_then_asks_for_their_scores(parent, capsys, tmp_path):
    (tmp_path / "grid.yaml").write_text("axes: [{path: hyperparams.training.seed, values: [1, 2]}]")
    sweep = ["sweep", parent.pk, "--snapshot", source(parent).pk, "--steps", "2", "-g", str(tmp_path / "grid.yaml"),
             "--submission-id", "s"]
    RunsCommand().run(sweep)
    assert f"--source {source(parent).pk[:12]} --all-branches {parent.pk[:12]}" in capsys.readouterr().out
    for child in Run.objects.filter(parent=parent).order_by("queued_at", "created_at"):
        complete(child)
    RunsCommand().run([*sweep, "--compare", "--dataset", "support/eval", "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert len(found["points"]) == 2 and found["comparison"]["fan"] == 2
    assert Comparison.objects.get().pk == found["comparison"]["comparisonId"]


def test_two_of_one_submission_at_once_are_one_comparison(parent, monkeypatch):
    child = complete(branch(parent, 1))
    first = compare(parent, branches=(child.pk,), submission_id="s")
    looks = iter([None, first])
    monkeypatch.setattr(comparisons, "_earlier", lambda *_: next(looks))
    wish = Wish(source(parent).pk, branches=(child.pk,), dataset="support/eval", submission_id="s")
    found = create_comparison(wish, actor=LOCAL)
    assert (found.comparison.pk, found.is_new) == (first.pk, False)


def test_comparisons_of_an_archived_workload_are_listed_where_they_are_asked_for(parent, capsys):
    child = complete(branch(parent, 1))
    found = compare(parent, branches=(child.pk,))
    Workload.objects.update(archived_at=timezone.now())
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})
    numbers = [client.get("/v1/training/comparisons", query).json()["total"]
               for query in ({}, {"archived": "true"}, {"workload": found.workload.name})]
    assert numbers == [0, 1, 1]
    Command().run(["list"])
    assert found.pk[:12] not in capsys.readouterr().out
    Command().run(["list", "--archived", "-o", "json"])
    assert [row["isArchived"] for row in json.loads(capsys.readouterr().out)["comparisons"]] == [True]


def test_only_what_differs_is_told():
    assert differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}, "d": 4}) == [
        {"path": "a.c", "source": 2, "target": 3}, {"path": "d", "source": None, "target": 4}]


def test_the_commands_make_and_show_a_comparison(parent, capsys):
    child = complete(branch(parent, 1))
    words = ["create", "--source", source(parent).pk, "--branch", child.pk, "--dataset", "support/eval"]
    assert Command().run([*words, "--dry-run"]) in (0, None) and "can be used" in capsys.readouterr().out
    assert not Comparison.objects.exists()
    Command().run(words)
    assert child.pk[:12] in capsys.readouterr().out
    Command().run(["list"])
    assert "PREPARING" in capsys.readouterr().out
