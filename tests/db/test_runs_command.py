"""`./optimize runs …`: what people and programs read, what is asked, and the exit statuses."""

import io
import json
from datetime import timedelta

import pytest
import yaml

from optimize_site.kernel.errors import Unavailable
from runs.management.commands import runs as module
from runs.models import Metric, Run, Snapshot
from runs.operations import advance_run, cancel_run
from tests.factories import make_run, run_document

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]


@pytest.fixture
def ask(capsys):
    """Run a command line; gives exit status, output and what was said."""
    def run(*argv):
        status = module.Command().run([str(part) for part in argv])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def descriptor(tmp_path):
    def write(kind="json", **changes):
        path = tmp_path / f"run.{kind}"
        body = run_document(**changes)
        path.write_text(json.dumps(body) if kind == "json" else yaml.safe_dump(body))
        return path

    return write


class Terminal(io.StringIO):
    """Somebody at a terminal who types `answer`."""

    def isatty(self):
        return True


def finish(phase, **columns):
    Run.objects.update(phase=phase, lease_token=None, **columns)


# Start ---------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R011", "R036", "R115")
@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_start_takes_json_and_yaml_and_prints_the_run(ready, ask, descriptor, kind):
    status, out, _ = ask("start", "-f", descriptor(kind), "-o", "json")
    assert status == 0
    assert set(json.loads(out)) >= {"runId", "phase", "configHash", "warnings", "previousRuns"}
    assert Run.objects.count() == 1
    ask("start", "-f", descriptor(kind))
    assert Run.objects.count() == 2


def test_start_reads_standard_input(ready, ask, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(run_document())))
    status, out, _ = ask("start", "-f", "-", "-o", "json", "--jq", ".runId")
    assert (status, out.strip()) == (0, Run.objects.get().pk)


@pytest.mark.requirement("R045")
def test_each_command_makes_a_submission_of_its_own_unless_one_is_stated(ready, ask, descriptor):
    ask("start", "-f", descriptor())
    ask("start", "-f", descriptor())
    stated = set(Run.objects.values_list("submission_id", flat=True))
    assert len(stated) == 2
    assert "" not in stated
    ask("start", "-f", descriptor(submissionId="s1"))
    ask("start", "-f", descriptor(submissionId="s1"))
    assert Run.objects.filter(submission_id="s1").count() == 1


@pytest.mark.requirement("R044")
def test_a_start_whose_answer_was_lost_is_sent_again_and_reaches_its_run(ready, ask, descriptor, monkeypatch):
    from optimize_site.kernel.client import Client

    real, lost = Client.post, []

    def lose_the_first_answer(self, path, body=None, **query):
        answer = real(self, path, body, **query)
        if not lost:
            lost.append(answer)
            raise Unavailable("The connection was lost.")
        return answer

    monkeypatch.setattr(Client, "post", lose_the_first_answer)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    status, out, _ = ask("start", "-f", descriptor(), "-o", "json")
    assert (status, json.loads(out)["runId"]) == (0, lost[0]["runId"])
    assert Run.objects.count() == 1


def test_values_can_be_laid_over_the_file(ready, ask, descriptor):
    ask("start", "-f", descriptor(), "--set", "config.hyperparams.lora.rank=16", "--set", "configName=r16",
        "--set", "config.hyperparams.optimizer.learningRate=5e-5")
    run = Run.objects.get()
    assert (run.config["hyperparams"]["lora"]["rank"], run.config_name) == (16, "r16")
    assert run.config["hyperparams"]["optimizer"]["learningRate"] == 5e-5


@pytest.mark.requirement("R113", "R116", "R118")
def test_a_dry_run_prints_the_document_and_its_exit_status_is_the_verdict(ready, ask, descriptor):
    status, out, _ = ask("start", "-f", descriptor(), "--dry-run", "--show-resolved", "-o", "json")
    assert (status, json.loads(out)["valid"]) == (0, True)
    status, out, _ = ask("start", "-f", descriptor(config={"maxSeqLength": -1}), "--dry-run", "-o", "json")
    assert (status, json.loads(out)["valid"]) == (3, False)
    assert Run.objects.count() == 0


@pytest.mark.requirement("R116", "R117", "R193")
def test_a_dry_run_shows_people_every_setting_as_get_does(ready, ask, descriptor):
    _, out, _ = ask("start", "-f", descriptor(config={"hyperparams": {"lora": {"rank": 4}}}), "--dry-run",
                    "--show-resolved")
    assert "Lengths" in out
    assert "Duplicates" in out
    settings = out[out.index("Settings"):]
    assert "lora.rank" in settings
    assert "4 (stated)" in settings
    assert "optimizer.learningRate" in settings
    ask("start", "-f", descriptor(config={"hyperparams": {"lora": {"rank": 4}}}))
    _, shown, _ = ask("get", Run.objects.get().pk, "--settings")
    assert shown[shown.index("Settings"):].strip() == settings.strip()


def test_a_refused_start_names_every_problem_and_exits_with_3(ready, ask, descriptor):
    status, _, err = ask("start", "-f", descriptor(config={"maxSeqLength": -1, "hyperparams": {
        "optimizer": {"weightDecay": -1}}}))
    assert status == 3
    assert "optimizer.weightDecay" in err
    assert "maxSeqLength" in err
    status, out, _ = ask("start", "-f", descriptor(config={"x": 1}), "-o", "json")
    assert (status, json.loads(out)["code"]) == (3, "run_refused")


@pytest.mark.parametrize("argv", [["start"], ["start", "-f", "x", "--show-resolved"],
                                  ["start", "-f", "x", "--exit-status"], ["start", "-f", "/nowhere"],
                                  ["start", "--set", "config"], ["nonsense"], []])
def test_a_misused_command_exits_with_2_and_a_sentence(ready, ask, argv):
    status, _, err = ask(*argv)
    assert status == 2
    assert err.strip()


@pytest.mark.requirement("R114")
@pytest.mark.parametrize(("answer", "runs"), [("y", 1), ("n", 0), ("", 0)])
def test_at_a_terminal_start_checks_first_and_then_asks(ready, ask, descriptor, monkeypatch, answer, runs):
    monkeypatch.setattr("sys.stdin", Terminal())
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or answer)
    _, out, _ = ask("start", "-f", descriptor())
    assert len(asked) == 1
    assert "Dry run" in out
    assert Run.objects.count() == runs


@pytest.mark.requirement("R114")
def test_a_descriptor_that_is_refused_is_not_asked_about(ready, ask, descriptor, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda question: pytest.fail("it asked"))
    assert ask("start", "-f", descriptor(config={"x": 1}))[0] == 3


@pytest.mark.requirement("R114")
def test_force_skips_the_question(ready, ask, descriptor, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda question: pytest.fail("it asked"))
    assert ask("start", "-f", descriptor(), "--force")[0] == 0


def test_a_file_that_is_no_text_is_refused_with_a_sentence(ready, ask, tmp_path):
    (tmp_path / "run.json").write_bytes(b"\xff\xfe{}")
    status, _, err = ask("start", "-f", tmp_path / "run.json")
    assert (status, "is not UTF-8" in err) == (2, True)


# Wait ----------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R174", "R190")
@pytest.mark.parametrize(("phase", "status"), [("COMPLETED", 0), ("FAILED", 5), ("CANCELLED", 6)])
def test_wait_ends_with_the_run_and_tells_its_end_only_when_asked_to(ready, ask, phase, status):
    run = make_run()
    finish(phase, failure_reason="Row 3 is wrong.", failure_code="bad_row")
    assert ask("wait", run.pk)[0] == 0
    assert ask("wait", run.pk, "--exit-status")[0] == status


@pytest.mark.requirement("R174")
def test_start_can_wait_and_reports_the_end(ready, ask, descriptor, monkeypatch):
    def end(_):
        finish("FAILED", failure_reason="Row 3 is wrong.", failure_code="bad_row")

    monkeypatch.setattr("optimize_site.kernel.commands.time.sleep", end)
    status, out, err = ask("start", "-f", descriptor(), "--wait", "--exit-status")
    assert status == 5
    assert "Resolving dataset" in err
    assert "Row 3 is wrong." in out


def test_waiting_gives_up_after_its_time_and_the_run_carries_on(ready, ask):
    run = make_run()
    status, _, err = ask("wait", run.pk, "--timeout", "0.01")
    assert status == 7
    assert "carries on" in err
    assert Run.objects.get().phase == "RESOLVING_DATASET"


@pytest.mark.requirement("R190")
def test_programs_read_events_line_by_line_and_the_record_last(ready, ask, monkeypatch):
    run = make_run()

    def end(_):
        cancel_run(run, actor=module_actor())

    monkeypatch.setattr("optimize_site.kernel.commands.time.sleep", end)
    _, out, _ = ask("wait", run.pk, "-o", "json-compact")
    lines = [json.loads(line) for line in out.splitlines()]
    assert {"status", "run.submitted", "run.cancelled"} <= {line.get("event") for line in lines}
    assert (lines[-1]["runId"], lines[-1]["phase"]) == (run.pk, "CANCELLED")


def module_actor():
    from optimize_site.kernel.auth import LOCAL

    return LOCAL


def test_quiet_hides_what_happens_in_between(ready, ask):
    run = make_run()
    finish("COMPLETED")
    _, out, err = ask("wait", run.pk, "-q", "-o", "json")
    assert (err, json.loads(out)["phase"]) == ("", "COMPLETED")


# Show ----------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R175", "R176")
def test_get_shows_state_results_and_cost(ready, ask):
    run = make_run(configName="r8-e2")
    fit = {"rows": 16, "tooLong": 0, "trainedTokens": 5, "totalTokens": 50, "paddingShare": 0.1, "longest": 9}
    check = {"name": "reference", "passed": True, "value": 1e-6, "bound": 1e-5, "seconds": 2.0}
    finish("COMPLETED", observed_step=6, total_steps=6, saved_step=6, data_fit=fit, checks=[check],
           summary={"lastLoss": 0.196, "validation": {"step": 6, "loss": 0.231, "perplexity": 1.26}})
    for step, loss in ((1, 2.31), (6, 0.196)):
        Metric.objects.create(run=run, step=step, attempt=1, at=run.created_at,
                              values={"loss": loss, "tokens_per_second": 1005.0})
    _, out, _ = ask("get", run.pk[:10])
    lines = [line.strip().split("  ", 1) for line in out.splitlines() if "  " in line.strip()]
    shown = {label: value.strip() for label, value in lines}
    assert shown["Run"] == run.pk
    assert shown["Phase"] == "Completed"
    assert shown["Progress"] == "6/6 steps (100%), loss 0.1960"
    assert shown["Saved"] == "step 6 (latest reported step)"
    assert shown["Validation loss"] == "0.2310 (perplexity 1.26)"
    assert "2.3100 → 0.1960 (mean 1.2530)" in out
    assert "1,005 tokens per second per device" in out
    assert [line for line in out.splitlines() if line and not line.startswith(" ")] == ["State", "Results", "Cost"]


@pytest.mark.requirement("R282")
def test_get_says_how_many_saves_wait_to_be_written_and_how_many_newer_ones_overtook(ready, ask):
    run = make_run()
    assert "waiting to be written" not in ask("get", run.pk)[1]
    Run.objects.update(saves_waiting=2, saves_skipped=3)
    assert "2 waiting to be written, 3 skipped because newer ones came" in ask("get", run.pk)[1]


@pytest.mark.requirement("R176")
def test_get_shows_why_a_run_failed_and_what_to_change(ready, ask):
    run = make_run()
    finish("FAILED", failure_reason="Row 3 is wrong.\nMore.", failure_code="bad_row", failure_hint="Mend it.")
    _, out, _ = ask("get", run.pk)
    assert "Row 3 is wrong." in out
    assert "Mend it." in out
    assert "More." not in out


@pytest.mark.requirement("R175", "R191")
def test_list_is_a_table_for_people_and_a_document_for_programs(ready, ask):
    run = make_run(configName="r8")
    status, out, _ = ask("list", "--phase", "open", "--project", "triage")
    assert status == 0
    assert run.pk[:12] in out
    assert "1 to 1 of 1 runs." in out
    assert json.loads(ask("list", "-o", "json")[1])["runs"][0]["runId"] == run.pk
    assert json.loads(ask("list", "--json", "runId,phase")[1]) == [{"runId": run.pk, "phase": "RESOLVING_DATASET"}]
    assert ask("list", "--phase", "nonsense")[0] == 2
    assert ask("get", "0" * 64)[0] == 4


def test_a_waiting_run_is_given_another_place_in_the_queue(ready, ask):
    first, second, third = (make_run(configName=name) for name in ("first", "second", "third"))
    status, out, said = ask("prioritize", third.pk)
    assert status == 3 and "only runs that wait" in out + said
    for place, run in enumerate((first, second, third)):
        Run.objects.filter(pk=run.pk).update(phase="AWAITING_CAPACITY",
                                             queued_at=run.created_at + timedelta(seconds=place))

    def queue():
        return list(Run.objects.order_by("queued_at").values_list("config_name", flat=True))

    assert ask("prioritize", third.pk)[0] in (0, None)
    assert queue() == ["third", "first", "second"]
    assert ask("prioritize", third.pk, "--behind", first.pk[:12])[0] in (0, None)
    assert queue() == ["first", "third", "second"]


@pytest.mark.requirement("R175")
def test_cancel_needs_force_where_nobody_can_be_asked(ready, ask):
    run = make_run()
    assert ask("cancel", run.pk)[0] == 2
    status, out, _ = ask("cancel", run.pk, "--force")
    assert (status, out.strip()) == (0, "Cancelled")
    assert ask("cancel", run.pk, "--force")[0] == 3


@pytest.mark.requirement("R047")
def test_annotate_sets_and_clears(ready, ask):
    run = make_run(configName="r8")
    ask("annotate", run.pk, "--description", "two epochs")
    ask("annotate", run.pk, "--config-name", "")
    run.refresh_from_db()
    assert (run.description, run.config_name) == ("two epochs", "")


@pytest.mark.requirement("R086", "R181")
def test_metrics_are_an_array_for_programs_and_columns_for_people(ready, ask):
    run = make_run()
    Metric.objects.create(run=run, step=1, attempt=1, at=run.created_at,
                          values={"loss": 2.0, "validation_loss": 1.5, "validation_perplexity": 4.5, "entropy": 3.0})
    assert json.loads(ask("metrics", run.pk, "-o", "json")[1])[0]["validationLoss"] == 1.5
    _, out, _ = ask("metrics", run.pk, "--fields", "entropy,nothing")
    header, row = out.splitlines()
    assert header.split() == ["STEP", "LOSS", "VALIDATION", "LOSS", "PERPLEXITY", "entropy", "nothing"]
    assert row.split() == ["1", "2.0000", "1.5000", "4.5000", "3.0000", "—"]


@pytest.mark.requirement("R160")
def test_engine_config_marks_what_the_engine_resolved_differently(ready, ask):
    run = make_run()
    assert ask("engine-config", run.pk)[0] == 4
    Run.objects.update(engine_config={"requested": {"attention": "sdpa", "threads": 2},
                                      "resolved": {"attention": "segments", "threads": 2}},
                       hparams={"values": {"lora.rank": 8}, "sha": "abc"})
    _, out, _ = ask("engine-config", run.pk)
    rows = [line.split() for line in out.splitlines()[1:3]]
    assert sorted(rows) == [["attention", "sdpa", "segments"], ["threads", "2", "—"]]
    assert "lora.rank" in ask("hparams", run.pk)[1]


def test_snapshots_and_the_log_are_shown(ready, ask):
    run = make_run()
    Snapshot.objects.create(run=run, attempt=1, step=5, folder="f", manifest_sha256="m" * 64, size_bytes=157286400)
    _, out, _ = ask("snapshots", run.pk)
    assert "weights, trainingState" in out
    assert "150.0 MiB" in out
    assert "1 to 1 of 1 snapshots." in out
    assert ask("log", run.pk)[0] == 0


def test_a_waiting_run_says_what_for(ready, ask):
    run = make_run()
    advance_run(run.pk)
    assert "0 of 2 slots of cpu are held." in ask("get", run.pk)[1]
