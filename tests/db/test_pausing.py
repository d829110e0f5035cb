"""A run rests and goes on: what is asked, what is refused, what the run shows, and that nothing is held meanwhile."""

import json
import re

import pytest
from django.test import Client

from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.models import Lease
from runs import queries, render
from runs.errors import (
    CheckpointUnknown,
    NothingToResume,
    PauseInProgress,
    RunAlreadyPaused,
    RunEnded,
    RunNotPaused,
    TooLateToPause,
)
from runs.management.commands.runs import Command
from runs.models import Run
from runs.operations import advance_run, cancel_run, pause_run, resume_run
from tests.factories import make_device, make_run
from tests.playing import STARTED, WORK, claim, end, failure, metrics, phases_of, reread, save, say, stage

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]


@pytest.fixture
def run(db):
    make_device()
    made = make_run()
    advance_run(made.pk)
    return reread(made)


def pause(run, checkpoint="save"):
    return pause_run(reread(run), checkpoint=checkpoint, actor=LOCAL)


def trained(run, *, saved=2):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), metrics(2), *([save(attempt, saved)] if saved else []), metrics(3))
    return attempt


@pytest.mark.requirement("R181", "R283")
def test_a_pause_asks_the_job_to_save_and_the_run_rests_once_it_has(run):
    attempt = trained(run)
    pausing = pause(run)
    assert pausing.is_new
    assert pausing.run.pause["resourcesReleased"] is False
    assert WORK.ask(WORK.get(run.pk)) == "pause"
    assert reread(run).phase == "PAUSING"
    say(run, attempt, save(attempt, 3), {"type": "stopped", "reason": "pause", "step": 3})
    run = end(run, attempt, "stopped")
    assert run.phase == "PAUSED"
    assert (run.pause["state"], run.pause["savedStep"], run.pause["resourcesReleased"]) == ("paused", 3, True)
    assert not Lease.objects.filter(released_at=None).exists()


@pytest.mark.requirement("R283")
def test_the_same_pause_again_is_the_pause_in_progress_and_another_one_is_refused(run):
    trained(run)
    first = pause(run)
    again = pause(run)
    assert not again.is_new
    assert again.run.pause == first.run.pause
    with pytest.raises(PauseInProgress, match="already pausing with --checkpoint save, not latest"):
        pause(run, "latest")


@pytest.mark.requirement("R283")
def test_a_pause_asked_for_twice_is_told_to_be_in_progress_already(run, capsys):
    trained(run)
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})

    def said(*more):
        Command().run(["pause", run.pk, "--checkpoint", "save", *more])
        return capsys.readouterr().out.strip()

    assert [said(), said()] == ["Training: pausing with --checkpoint save",
                                "Training: already pausing with --checkpoint save"]
    assert json.loads(said("-o", "json"))["isNew"] is False
    Run.objects.update(pause=None)
    statuses = [client.post(f"/v1/training/runs/{run.pk}/pause", json.dumps({"checkpoint": "save"}),
                            content_type="application/json").status_code for _ in range(2)]
    assert statuses == [202, 200]


@pytest.mark.requirement("R284")
def test_a_paused_run_is_not_paused_again(run):
    pause(run)
    with pytest.raises(RunAlreadyPaused, match="PAUSED") as refused:
        pause(run)
    assert (refused.value.status, refused.value.data["phase"]) == (400, "PAUSED")


@pytest.mark.requirement("R285")
def test_a_latest_pause_keeps_the_newest_save_with_training_state_also_one_made_while_stopping(run):
    attempt = trained(run)
    pause(run, "latest")
    assert WORK.ask(WORK.get(run.pk)) == "drop"
    say(run, attempt, save(attempt, 3), save(attempt, 4, state=False))
    run = end(run, attempt, "stopped")
    assert run.pause["savedStep"] == 3
    resume_run(run, actor=LOCAL)
    again = claim(run)
    assert WORK.plan(WORK.get(run.pk), again)["resume"]["step"] == 3


def test_a_latest_pause_that_would_lose_everything_is_refused(run):
    trained(run, saved=None)
    with pytest.raises(NothingToResume, match="has trained 3 updates and holds no save"):
        pause(run, "latest")
    assert reread(run).pause is None


def test_a_waiting_run_rests_at_once(run):
    assert pause(run).run.phase == "PAUSED"
    assert phases_of(run)[-1] == "PAUSED"


@pytest.mark.parametrize("checkpoint", ["save", "latest"])
def test_a_job_that_dies_while_pausing_leaves_a_paused_run_that_tells_the_truth(run, checkpoint):
    attempt = trained(run)
    pause(run, checkpoint)
    WORK.ask(WORK.get(run.pk))
    run = end(run, attempt, "lost", exit={"signal": 9})
    assert (run.phase, run.pause["savedStep"]) == ("PAUSED", 2)
    assert run.pause["state"] == ("failed" if checkpoint == "save" else "paused")
    assert ("signal 9" in run.pause["reason"]) == (checkpoint == "save")


@pytest.mark.requirement("R283")
@pytest.mark.parametrize(("said", "outcome", "why"), [
    ([failure("unexpected")], "failed", "It broke. Mend it."),
    ([], "stopped", "The job stopped before it had saved."),
    ([], "lost", "The job ended with signal 9 before it had saved."),
])
def test_a_save_that_did_not_come_about_is_told_with_its_reason_everywhere(run, said, outcome, why, capsys):
    attempt = trained(run)
    pause(run)
    WORK.ask(WORK.get(run.pk))
    say(run, attempt, *said)
    run = end(run, attempt, outcome, exit={"signal": 9, "code": None} if outcome == "lost" else None)
    assert (run.phase, run.pause["state"], run.pause["savedStep"]) == ("PAUSED", "failed", 2)
    told = f"The save that was asked for did not come about. {why}"
    assert run.pause["reason"] == queries.events_of(run).filter(type="run.paused").get().reason == told
    Command().run(["get", run.pk])
    assert f"Paused; it goes on from update 2. {told}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.requirement("R283")
def test_a_pause_asked_for_in_the_moment_in_which_the_job_failed_says_so_too(run):
    attempt = trained(run)
    say(run, attempt, failure("unexpected"))
    end(run, attempt, "failed")
    Run.objects.update(pause={"checkpoint": "save", "state": "requested", "requestedBy": "ada"})
    advance_run(run.pk)
    run = reread(run)
    assert (run.phase, run.pause["state"], run.pause["savedStep"]) == ("PAUSED", "failed", 2)
    assert run.pause["reason"].endswith("did not come about. It broke. Mend it.")


def test_a_job_that_dies_behind_the_save_that_was_asked_for_has_paused(run):
    attempt = trained(run)
    pause(run)
    WORK.ask(WORK.get(run.pk))
    say(run, attempt, save(attempt, 3))
    run = end(run, attempt, "lost", exit={"signal": 9})
    assert (run.phase, run.pause["state"], run.pause["reason"], run.pause["savedStep"]) == ("PAUSED", "paused", "", 3)


def test_a_run_that_was_to_be_tried_again_and_is_cancelled_has_not_failed(run):
    attempt = trained(run)
    say(run, attempt, failure("unexpected"))
    end(run, attempt, "failed")
    run = cancel_run(reread(run), actor=LOCAL)
    assert (run.phase, run.failure_code, run.failure_reason) == ("CANCELLED", "", "")


def test_a_run_that_finishes_before_the_pause_reaches_it_is_completed(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1, final=True))
    pause(run)
    end(run, attempt, "finished")
    advance_run(run.pk)
    assert reread(run).phase == "COMPLETED"


@pytest.mark.parametrize("ending", ["cancelled", "ended"])
def test_a_run_that_is_ending_is_not_paused(run, ending):
    attempt = trained(run)
    cancel_run(run, actor=LOCAL)
    if ending == "ended":
        end(run, attempt, "stopped")
        advance_run(run.pk)
    with pytest.raises(RunEnded if ending == "ended" else TooLateToPause):
        pause(run)


def test_a_checkpoint_nobody_knows_is_refused(run):
    with pytest.raises(CheckpointUnknown, match="save or latest"):
        pause(run, "now")


@pytest.mark.requirement("R032", "R183", "R286")
def test_a_resume_is_another_attempt_of_the_same_run_that_shows_itself(run):
    attempt = trained(run)
    pause(run)
    WORK.ask(WORK.get(run.pk))
    say(run, attempt, save(attempt, 3))
    end(run, attempt, "stopped")
    resumed = resume_run(reread(run), actor=LOCAL)
    assert resumed.pk == run.pk
    assert phases_of(run)[-2:] == ["AWAITING_BASE_MODEL", "AWAITING_CAPACITY"]
    assert render.status_document(resumed)["pause"] is None
    again = claim(run)
    assert again.number == 2
    WORK.plan(WORK.get(run.pk), again)
    again.save()
    run = say(run, again, STARTED, stage("tokenising", 1, 5))
    assert (run.phase, run.observed_step) == ("PREPARING", 3)
    assert say(run, again, metrics(4)).phase == "TRAINING"


@pytest.mark.requirement("R287")
@pytest.mark.parametrize(("is_saved", "told"), [(True, "from step 3, with its optimizer state"),
                                                (False, "no save was left; from the base model")])
def test_a_resumed_run_says_which_save_it_went_on_from_or_that_none_was_left(run, is_saved, told, capsys):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(3), *([save(attempt, 3)] if is_saved else []))
    end(run, attempt, "lost", exit={"signal": 9})
    again = claim(run)
    WORK.plan(WORK.get(run.pk), again)
    again.save()
    say(run, again, STARTED)
    Command().run(["get", run.pk])
    assert re.search(rf"Resumed +{told}", capsys.readouterr().out)


@pytest.mark.requirement("R286")
def test_cancelling_a_resumed_run_leaves_the_earlier_pause_as_it_ended(run):
    attempt = trained(run, saved=3)
    pause(run)
    end(run, attempt, "stopped")
    resume_run(reread(run), actor=LOCAL)
    cancel_run(reread(run), actor=LOCAL)
    assert reread(run).phase == "CANCELLED"
    kept = [event.data["pause"] for event in queries.events_of(run) if event.data.get("pause")]
    assert [pause["state"] for pause in kept] == ["paused"]


def test_of_two_resumes_one_is_told_that_the_run_goes_on_already(run):
    pause(run)
    stale = reread(run)
    resume_run(reread(run), actor=LOCAL)
    with pytest.raises(RunNotPaused, match="not PAUSED"):
        resume_run(stale, actor=LOCAL)
    assert Run.objects.get(pk=run.pk).phase == "AWAITING_CAPACITY"


def test_a_run_that_is_not_paused_is_not_resumed(run):
    with pytest.raises(RunNotPaused, match="AWAITING_CAPACITY, not PAUSED"):
        resume_run(run, actor=LOCAL)


@pytest.mark.requirement("R285")
def test_a_descriptor_states_the_update_at_which_it_pauses(run):
    stated = make_run(pauseAtStep=3)
    assert (stated.pause_at_step, render.run_document(reread(stated))["pauseAtStep"]) == (3, 3)


def end_at_its_save(run, outcome, *said):
    """The job trains to update 3, where its plan pauses, saves, and then ends so."""
    attempt = claim(run)
    assert WORK.plan(WORK.get(run.pk), attempt)["pause_at"] == 3
    say(run, attempt, STARTED, {"type": "plan_size", "totalSteps": 6}, metrics(3), save(attempt, 3), *said)
    return end(run, attempt, outcome, exit={"signal": 9, "oom_kill": outcome == "lost"})


def goes_on(run):
    """Resumed, the run trains behind its pause and rests there no second time."""
    resume_run(reread(run), actor=LOCAL)
    again = claim(run)
    assert WORK.plan(WORK.get(run.pk), again)["pause_at"] is None
    again.save(update_fields=["resumed_step"])
    return again


@pytest.mark.requirement("R285")
@pytest.mark.parametrize(("outcome", "said"), [
    ("stopped", [{"type": "stopped", "reason": "pause", "step": 3}]), ("stopped", []), ("lost", []),
    ("failed", [failure("unexpected")]), ("failed", [failure("disk_full")])])
def test_a_run_whose_plan_pauses_rests_at_that_save_once_however_its_job_ended(run, outcome, said):
    Run.objects.update(pause_at_step=3)
    run = end_at_its_save(run, outcome, *said)
    assert (run.phase, run.pause["savedStep"], run.pause["requestedBy"]) == ("PAUSED", 3, "plan")
    assert (run.pause["state"], run.pause["reason"]) == ("paused", "")
    again = goes_on(run)
    assert end(run, again, outcome, exit={"signal": 9}).phase in {"AWAITING_CAPACITY", "CLEANING_UP"}


def test_a_run_goes_on_behind_the_pause_of_its_plan_also_from_an_older_save(run):
    Run.objects.update(pause_at_step=3)
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(2), save(attempt, 2), metrics(3), save(attempt, 3))
    end(run, attempt, "stopped")
    (queries.folder_of_snapshot(run.snapshots.get(step=3)) / "optimizer.pt").write_bytes(b"damaged")
    again = goes_on(run)
    assert again.resumed_step == 2


def test_a_pause_asked_for_at_the_update_of_the_plans_pause_is_both(run):
    Run.objects.update(pause_at_step=3)
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(3))
    pause(run)
    say(run, attempt, save(attempt, 3))
    assert end(run, attempt, "lost", exit={"signal": 9}).pause["state"] == "paused"
    goes_on(run)


def test_a_plan_that_pauses_at_the_last_update_has_nothing_to_pause_for(run):
    Run.objects.update(pause_at_step=6)
    attempt = claim(run)
    say(run, attempt, STARTED, {"type": "plan_size", "totalSteps": 6}, metrics(6), save(attempt, 6, final=True))
    assert end(run, attempt, "lost", exit={"signal": 9}).phase == "AWAITING_CAPACITY"
