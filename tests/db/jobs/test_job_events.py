"""What a run's job says, as phases, figures and what is kept of it."""

import pytest

from optimize_site.kernel.models import Attempt
from optimize_site.kernel.work import attempt_folder
from runs import queries, render
from runs.management.commands.runs import Command
from runs.models import Metric
from runs.phases import PHASES
from runs.text import result_rows
from tests.playing import STARTED, claim, end, metrics, phases_of, reread, save, say, stage

pytestmark = pytest.mark.django_db


@pytest.mark.requirement("R178", "R180", "R181", "R186")
def test_a_first_attempt_passes_through_the_phases_in_order(run):
    attempt = claim(run)
    assert say(run, attempt, STARTED).phase == "QUEUED"
    run = say(run, attempt, stage("tokenising", 3, 16))
    assert (run.phase, run.stage) == ("PREPARING", {"name": "tokenising", "done": 3, "total": 16})
    assert say(run, attempt, metrics(1)).phase == "TRAINING"
    assert end(run, attempt, "finished").phase == "RECORDING"
    assert phases_of(run) == ["AWAITING_BASE_MODEL", "AWAITING_CAPACITY", "STARTING_JOB", "QUEUED", "PREPARING",
                              "TRAINING", "RECORDING"]
    assert reread(run).lease_token is None


@pytest.mark.requirement("R177", "R181")
def test_each_step_s_figures_are_kept_and_a_replayed_step_replaces_its_row(run):
    attempt = claim(run)
    run = say(run, attempt, STARTED, metrics(1, 3.0), metrics(2, 2.0, learning_rate=0.1), metrics(2, 1.5))
    assert run.observed_step == 2
    assert [(row.step, row.values["loss"]) for row in queries.metrics_of(run)] == [(1, 3.0), (2, 1.5)]
    assert "learning_rate" not in queries.metrics_of(run)[1].values
    assert [row.step for row in queries.metrics_of(run, limit=1)] == [2]
    attempt.refresh_from_db()
    assert (attempt.first_step, attempt.last_step) == (1, 2)


def test_figures_that_were_read_at_once_are_stored_at_once(run, django_assert_max_num_queries):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1))
    with django_assert_max_num_queries(6):
        say(run, attempt, *(metrics(step, loss=step / 10) for step in (2, 3, 4, 3, 4, 5)))
    row = reread(run)
    assert [(one.step, one.values["loss"]) for one in row.metrics.order_by("step")] == [
        (1, 1.0), (2, 0.2), (3, 0.3), (4, 0.4), (5, 0.5)]
    attempt.refresh_from_db()
    assert (row.observed_step, attempt.first_step, attempt.last_step) == (5, 1, 5)


@pytest.mark.requirement("R086")
def test_validation_stands_beside_the_training_loss_and_the_last_reading_is_shown(run):
    attempt = claim(run)
    reading = {"type": "validation", "step": 2, "loss": 0.231, "perplexity": 1.26}
    run = say(run, attempt, STARTED, metrics(1), metrics(2, 0.2), reading)
    steps = [render.metric_document(row) for row in queries.metrics_of(run)]
    assert (steps[1]["loss"], steps[1]["validationLoss"], steps[1]["perplexity"]) == (0.2, 0.231, 1.26)
    assert "validationLoss" not in steps[0]
    assert render.run_document(run)["validation"] == {"step": 2, "loss": 0.231, "perplexity": 1.26}


@pytest.mark.requirement("R177")
def test_the_saved_step_is_the_newest_restorable_save(run):
    attempt = claim(run)
    run = say(run, attempt, STARTED, metrics(1), save(attempt, 1), metrics(2), save(attempt, 2, state=False),
              metrics(3))
    assert (run.observed_step, run.saved_step) == (3, 1)
    assert [row.step for row in queries.snapshots_of(run)] == [2, 1]


@pytest.mark.requirement("R160")
def test_what_the_job_writes_once_is_kept(run):
    attempt = claim(run)
    fit = {"rows": 15, "tooLong": 1, "trainedTokens": 5, "totalTokens": 50, "paddingShare": 0.1, "longest": 9}
    run = say(run, attempt, STARTED, {"type": "hparams", "values": {"a": 1}, "sha": "x"},
              {"type": "engine_config", "requested": {"a": 1}, "resolved": {"a": 2}},
              {"type": "plan_size", "totalSteps": 7, "rowsPerEpoch": 15}, {"type": "data_fit"} | fit,
              {"type": "check", "name": "reference", "passed": True, "value": 1e-6, "bound": 1e-5, "seconds": 1.0},
              *[{"type": "warning", "code": "w", "message": "Look."}] * 2)
    assert run.hparams == {"values": {"a": 1}, "sha": "x"}
    assert run.engine_config == {"requested": {"a": 1}, "resolved": {"a": 2}}
    assert (run.total_steps, run.data_fit) == (7, fit)
    assert run.checks[0]["name"] == "reference"
    assert [warning["code"] for warning in run.warnings] == ["unmeasured_envelope", "w"]


@pytest.mark.requirement("R095")
def test_rows_that_were_left_out_show_on_the_data_fit_line(run):
    fit = {"type": "data_fit", "rows": 15, "tooLong": 2, "trainedTokens": 5, "totalTokens": 50, "paddingShare": 0.0,
           "longest": 9}
    run = say(run, claim(run), STARTED, fit)
    assert "2 left out as too long" in dict(result_rows(render.run_document(run)))["Data fit"]
    run = say(run, Attempt.objects.get(), fit | {"tooLong": 0})
    assert "left out" not in dict(result_rows(render.run_document(run)))["Data fit"]


@pytest.mark.requirement("R100", "R103", "R368")
def test_trimmed_rows_and_removed_turns_show_on_the_data_fit_line_when_there_are_some(run):
    fit = {"type": "data_fit", "rows": 15, "tooLong": 0, "trainedTokens": 5, "totalTokens": 50, "paddingShare": 0.0,
           "longest": 9, "trimmed": 3, "turnsRemoved": 7}
    run = say(run, claim(run), STARTED, fit)
    assert "3 trimmed (7 turns removed)" in dict(result_rows(render.run_document(run)))["Data fit"]
    assert "targetsCut" not in str(render.run_document(run))
    run = say(run, Attempt.objects.get(), fit | {"trimmed": 0, "turnsRemoved": 0})
    assert "trimmed" not in dict(result_rows(render.run_document(run)))["Data fit"]


@pytest.mark.requirement("R368")
def test_runs_get_shows_counts_and_padding_on_one_line_and_the_measured_peak_on_another(run, capsys):
    fit = {"type": "data_fit", "rows": 1500, "tooLong": 2, "trainedTokens": 5, "totalTokens": 50, "paddingShare": 0.25,
           "longest": 9, "trimmed": 3, "turnsRemoved": 7}
    peak = {"peak_memory_bytes": 3 * 2**30, "memory_weights_bytes": 2 * 2**30, "memory_activations_bytes": 2**30}
    say(run, claim(run), STARTED, fit, metrics(1, peak_memory_bytes=2**30), metrics(2, **peak))
    assert Command().run(["get", run.pk]) == 0
    out = capsys.readouterr().out
    assert ("1,500 rows, 2 left out as too long, 3 trimmed (7 turns removed), longest 9 tokens, 5 of 50 tokens "
            "trained, 25% padding") in out
    assert "Memory            3.0 GiB = weights 2.0 GiB + activations 1.0 GiB at update 2" in out
    run = say(run, Attempt.objects.get(), fit | {"paddingShare": 0.0})
    assert render.run_document(run)["dataFit"]["paddingShare"] == 0.0
    assert Command().run(["get", run.pk]) == 0
    assert "padding" not in capsys.readouterr().out


@pytest.mark.requirement("R176")
def test_the_time_left_follows_from_the_last_steps_pace(run):
    attempt = claim(run)
    size = {"type": "plan_size", "totalSteps": 12, "rowsPerEpoch": 16}
    run = say(run, attempt, STARTED, size, metrics(1), metrics(2))
    progress = render.run_document(run)["progress"]
    assert (progress["step"], progress["totalSteps"], progress["etaSeconds"]) == (2, 12, 20.0)


@pytest.mark.requirement("R023")
def test_every_event_of_the_seam_is_taken_or_left(run):
    attempt = claim(run)
    say(run, attempt, STARTED, {"type": "progress", "done": 1, "total": 2}, {"type": "of_a_later_version"},
        {"type": "stopped", "reason": "stop", "step": 1}, {"type": "finished", "step": 1})
    assert reread(run).phase in PHASES.active
    assert Metric.objects.count() == 0


def test_the_log_s_end_is_read_from_the_newest_attempt(run):
    attempt = claim(run)
    folder = attempt_folder(attempt.pk)
    folder.mkdir(parents=True)
    (folder / "stderr.log").write_text("\n".join(f"line {number}" for number in range(50)))
    assert queries.log_tail(run, lines=2)["lines"] == ["line 48", "line 49"]
