"""Analyses through the API and the commands: started or read, listed, followed, stopped, and read for a run."""

import json

import pytest
import yaml
from django.test import Client

from datasets.management.commands import datasets as module
from datasets.models import Analysis
from optimize_site.kernel.auth import LOCAL_SECRET
from registry.models import BaseModel
from runs.evidence import count_sequences
from tests import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]
ROUTE = "/v1/training/datasets/analyses"


@pytest.fixture
def dataset(db):
    make.make_device("cpu")
    make.make_device("host", kind="host", profile="host")
    make.make_base_model()
    return make.make_dataset("triage/train", 4)


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


@pytest.fixture
def ask(capsys):
    """Run a command line; gives exit status, output and what was said."""
    def run(*argv):
        status = module.Command().run([str(part) for part in argv])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def post(client, body):
    return client.post(ROUTE, json.dumps(body), content_type="application/json")


def asked(**changes):
    return {"dataset": "triage/train", "baseModel": make.TINY} | changes


def run_file(tmp_path, **changes):
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(make.run_document(**changes)))
    return path


# The API -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R348")
def test_post_starts_an_analysis_and_then_reads_the_one_that_is_kept(client, dataset):
    first = post(client, asked())
    assert (first.status_code, first.json()["status"], first.json()["estimates"]) == (201, "pending", None)
    make.analyze(dataset, [10] * 4)
    again = post(client, asked(config={}))
    assert (again.status_code, again.json()["analysisId"]) == (200, first.json()["analysisId"])
    assert again.json()["estimates"]["steps"]["value"] == 3
    assert post(client, asked()).json()["estimates"] is None


@pytest.mark.requirement("R348", "R344")
def test_get_reads_the_status_and_the_measurements_without_estimates(client, dataset):
    analysis = make.analyze(dataset, [100, 600, 900, 40])
    found = client.get(f"{ROUTE}/{analysis.pk[:12]}").json()
    assert "estimates" not in found
    assert (found["status"], found["baseModelRevision"], found["productVersion"]) == ("done", "rev-1", "0.1.0")
    report = found["report"]
    assert set(report) >= {"tokenizer", "chatTemplateSha256", "templateOrigin", "lengths", "limits", "longestRows",
                           "suggestedMaxSeqLength", "trainedTokens"}
    assert set(report["lengths"]) >= {"median", "p90", "p99", "longest"}
    assert report["limits"][0] == {"limit": 512, "over": 2, "overTrimmed": 2}
    assert set(report["trainedTokens"]) == {"default", "all"}


@pytest.mark.requirement("R327")
def test_an_analysis_names_the_chat_template_that_its_rows_were_rendered_under(client, dataset):
    analysis = make.analyze(dataset, [10] * 4)
    assert client.get(f"{ROUTE}/{analysis.pk}").json()["report"]["chatTemplateSha256"] == "5" * 64


def test_they_are_listed_followed_and_cancelled(client, dataset):
    started = post(client, asked()).json()["analysisId"]
    make.make_dataset("triage/other", 3)
    assert client.get(ROUTE, {"dataset": "triage/other"}).json()["total"] == 0
    (row,) = client.get(ROUTE, {"dataset": "triage/train"}).json()["analyses"]
    assert (row["analysisId"], row["status"]) == (started, "pending")
    followed = client.get(f"{ROUTE}/{started}/events", {"follow": "false"}).json()
    assert (followed["status"]["status"], followed["events"][0]["type"]) == ("pending", "analysis.started")
    cancelled = client.post(f"{ROUTE}/{started}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (202, "cancelled")
    assert client.post(f"{ROUTE}/{started}/cancel").json()["code"] == "analysis_ended"


def test_what_is_missing_or_wrong_is_refused_by_name_and_starts_nothing(client, dataset):
    assert post(client, {"dataset": "triage/train"}).json()["code"] == "base_model_missing"
    assert post(client, asked(dataset="triage/none")).status_code == 404
    wrong = post(client, asked(config={"maxSeqLenght": 5, "hyperparams": {"training": {"epochs": "many"}}})).json()
    assert {problem["path"] for problem in wrong["problems"]} == {"config.maxSeqLenght", "training.epochs"}
    assert Analysis.objects.count() == 0


# Estimates -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R346")
def test_a_run_s_parts_give_its_steps_and_time_with_the_origin_of_each_value(client, dataset):
    make.analyze(dataset, [100, 600, 40, 40])
    config = {"maxSeqLength": 512, "data": {"truncation": "drop"}, "hyperparams": {
        "training": {"microBatchPerGpu": 1, "gradientAccumulation": 2, "epochs": 5}}}
    found = post(client, asked(config=config)).json()["estimates"]
    assert (found["steps"]["value"], found["tokensPerEpoch"]["value"]) == (10, 180)
    assert found["tokensPerEpoch"]["source"] == "analysis"
    assert set(found["seconds"]) == {"value", "source", "note"}
    origins = {setting["setting"]: setting["from"] for setting in found["settings"]}
    assert origins["training.epochs"] == "stated"
    assert origins["training.validationFrequencySteps"] == origins["execution.gpus"] == "default"


@pytest.mark.requirement("R346")
def test_the_time_is_that_of_the_execution_which_the_run_file_states(client, dataset):
    make.make_device("gpu", kind="cuda", profile="h200")
    BaseModel.objects.update(facts={"contextLength": 4096, "parameters": 10**12})
    make.analyze(dataset, [100, 600, 40, 40])

    def estimated(**execution):
        return post(client, asked(config={}, execution=execution)).json()["estimates"]

    slow, fast = estimated(deviceProfile="cpu"), estimated(deviceProfile="h200")
    assert 0 < fast["seconds"]["value"] < slow["seconds"]["value"]
    (stated,) = (row for row in fast["settings"] if row["setting"] == "execution.deviceProfile")
    assert (stated["value"], stated["from"]) == ("h200", "stated")


@pytest.mark.requirement("R346")
def test_packed_rows_are_counted_as_the_run_packs_them(client, dataset):
    make.analyze(dataset, [300, 300, 200, 200])
    config = {"maxSeqLength": 512, "data": {"packing": True}, "hyperparams": {
        "training": {"microBatchPerGpu": 1, "gradientAccumulation": 1, "epochs": 1}}}
    assert post(client, asked(config=config)).json()["estimates"]["steps"]["value"] == 2
    assert count_sequences([5, 4, 3, 3], 8) == 2
    assert count_sequences([], 8) == 0


# The commands --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R343", "R344")
def test_analyze_starts_one_and_shows_its_figures_once_they_are_there(ask, dataset):
    status, out, said = ask("analyze", "triage/train", "--model", make.TINY)
    assert (status, "Pending" in out, "--wait" in said) == (0, True, True)
    make.analyze(dataset, [100, (900, 300), 600, 40])
    status, out, _ = ask("analyze", "triage/train", "--model", make.TINY)
    for words in ("Done", "acme/tiny at rev-1", "555555555555 (shipped)", "longest 900", "maxSeqLength 1,024",
                  "with assistantTurns: all", "STILL OVER WHEN TRIMMED", "LINE"):
        assert words in out
    assert status == 0


@pytest.mark.requirement("R347")
def test_wait_ends_with_the_report_or_with_the_status_of_its_failure(ask, dataset, monkeypatch):
    monkeypatch.setattr("optimize_site.kernel.commands.time.sleep", lambda _: make.analyze(dataset, [10] * 4))
    status, out, said = ask("analyze", "triage/train", "--model", make.TINY, "--wait")
    assert (status, "maxSeqLength 512" in out, "Pending" in said) == (0, True, True)
    Analysis.objects.update(phase="FAILED", failure_code="bad_row", failure_reason="It broke.")
    status, out, _ = ask("analyze", "triage/train", "--model", make.TINY, "--wait")
    assert (status, "It broke." in out) == (5, True)


@pytest.mark.requirement("R346")
def test_a_run_file_names_the_base_model_and_another_model_is_refused(ask, dataset, tmp_path):
    make.analyze(dataset, [10] * 4)
    file = run_file(tmp_path, config={"hyperparams": {"training": {"epochs": 2}}})
    status, out, _ = ask("analyze", "triage/train", "-f", file)
    assert status == 0
    assert "Estimates" in out and "Updates" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["training.epochs", "2", "file"] in lines
    assert ["maxSeqLength", "2048", "default"] in lines
    make.make_base_model("acme/other")
    status, _, said = ask("analyze", "triage/train", "-f", file, "--model", "acme/other")
    assert status == 2
    assert "baseModel is acme/tiny, and --model names acme/other" in said
    assert ask("analyze", "triage/train", "-f", file, "--model", "ACME/tiny")[0] == 0
    assert ask("analyze", "triage/train")[0] == 2


def test_analyses_are_a_table_and_one_can_be_stopped(ask, dataset):
    make.analyze(dataset, [10] * 4)
    _, out, _ = ask("analyses", "triage/train")
    assert out.split("\n")[0].split() == ["ANALYSIS", "BASE", "MODEL", "STATUS", "ROWS", "MAX", "TOKENS", "ATTEMPT",
                                          "STARTED"]
    assert "acme/tiny at rev-1" in out and "Done" in out
    Analysis.objects.update(phase="PENDING", report={})
    status, out, _ = ask("cancel", Analysis.objects.get().pk[:12], "--force")
    assert (status, Analysis.objects.get().phase) == (0, "CANCELLED")


# A dry run ------------------------------------------------------------------------------------------------------------


NOTICED = {"duplicates": {"exact": 1, "near": 3, "examples": [
               {"kind": "exact", "row": 2, "line": 3, "of": {"row": 0, "line": 1}},
               {"kind": "near", "row": 3, "line": 4, "of": {"row": 1, "line": 2}}]},
           "labels": [{"field": "queue", "values": [{"value": "billing", "rows": 38}, {"value": "other", "rows": 2}]},
                      {"field": "tone", "values": [{"value": "calm", "rows": 22}, {"value": "cross", "rows": 18}]}],
           "languages": [{"language": "en", "rows": 30}, {"language": "de", "rows": 10}]}


def diagnostics(client, **changes):
    answer = client.post("/v1/training/runs/dry-run", json.dumps(make.run_document(**changes)),
                         content_type="application/json")
    return answer.json()["diagnostics"]


@pytest.fixture
def noticed(dataset):
    make.make_workload()
    wide = make.make_dataset("triage/wide", 40)
    return make.analyze(wide, [10] * 40, **NOTICED)


@pytest.mark.requirement("R126")
def test_a_dry_run_tells_what_a_done_analysis_found_of_how_many_rows(client, noticed):
    found = diagnostics(client, config={"dataset": "triage/wide"})["analysis"]
    assert (found["status"], found["analysisId"], found["baseModel"]) == ("done", noticed.pk, make.TINY)
    assert found["coverage"] == {"read": 40, "total": 40, "complete": True, "note": ""}
    assert found["duplicates"] | {"note": ""} == {"exact": 1, "near": 3, "firstNear": [{"position": 3, "sameAs": 1}],
                                                  "note": ""}
    assert "fewer than eight words" in found["duplicates"]["note"]
    assert [(label["field"], label["rows"], label["ratio"], label["isUneven"]) for label in found["labels"]] == [
        ("queue", 40, 19.0, True), ("tone", 40, 1.2, False)]
    assert found["languages"]["found"] == NOTICED["languages"] and "guess" in found["languages"]["note"]
    assert found["tokens"] == {"total": 400, "trained": {"default": 40, "all": 80}}


@pytest.mark.requirement("R126")
def test_a_dry_run_without_one_says_what_is_not_known_and_what_would_tell(client, dataset):
    make.make_workload()
    found = diagnostics(client)["analysis"]
    assert (found["status"], found["command"]) == (
        "no_analysis", f"./optimize datasets analyze triage/train:v1 --model {make.TINY}")
    assert "near-duplicates" in found["note"]
    post(client, asked())
    found = diagnostics(client)["analysis"]
    assert (found["status"], found["command"]) == ("pending", None)
    assert diagnostics(client, baseModel="acme/unknown")["analysis"] is None


@pytest.mark.requirement("R126")
def test_the_command_s_dry_run_tells_it_after_how_much_was_read(noticed, capsys, tmp_path):
    from runs.management.commands.runs import Command

    assert Command().run(["start", "-f", str(run_file(tmp_path, config={"dataset": "triage/wide"})),
                          "--dry-run"]) == 0
    out = capsys.readouterr().out
    for words in (f"all 40 examples, by the analysis {noticed.pk[:12]} under acme/tiny",
                  "3 (row 3 ≈ 1, …), and 1 that render as an earlier one does. An estimate",
                  "billing 38 (95%), other 2 (5%). Uneven: the most frequent comes 19 times as often",
                  "calm 22 (55%), cross 18 (45%).", "en 30, de 10. A guess", "400 an epoch, of them 40 trained"):
        assert words in out
    assert out.index("Read ") < out.index("Near-duplicates")
