"""The routes of runs: the shapes that programs rely on, and errors as problem documents."""

import json

import pytest
from django.test import Client

from optimize_site.kernel import accounts
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from runs.models import Metric, Run, Snapshot
from tests.factories import make_run, run_document

pytestmark = pytest.mark.django_db
RUNS = "/v1/training/runs"


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def post(client, path, body=None, kind="application/json"):
    return client.post(path, body if isinstance(body, str) else json.dumps(body or {}), content_type=kind)


@pytest.mark.requirement("R050", "R115")
def test_a_start_answers_with_the_run_its_hash_and_earlier_runs(client, ready):
    first = post(client, RUNS, run_document())
    assert first.status_code == 201
    second = post(client, RUNS, run_document()).json()
    assert set(second) == {"runId", "phase", "configHash", "isNew", "warnings", "previousRuns"}
    assert [run["runId"] for run in second["previousRuns"]] == [first.json()["runId"]]
    assert second["warnings"][0]["code"] == "unmeasured_envelope"


@pytest.mark.requirement("R044")
def test_a_resent_start_answers_200_with_the_same_run_and_409_for_another_body(client, ready):
    first = post(client, RUNS, run_document(submissionId="s1"))
    again = post(client, RUNS, run_document(submissionId="s1"))
    assert (again.status_code, again.json()["runId"]) == (200, first.json()["runId"])
    other = post(client, RUNS, run_document(submissionId="s1", description="x"))
    assert (other.status_code, other.json()["code"]) == (409, "submission_conflict")


@pytest.mark.requirement("R036")
def test_a_descriptor_may_be_yaml(client, ready):
    text = ("kind: run\nworkload: triage\nbaseModel: acme/tiny\nconfig:\n  dataset: train\n"
            "  hyperparams: {optimizer: {learningRate: 5e-5}}\n")
    run = Run.objects.get(pk=post(client, RUNS, text, "application/yaml").json()["runId"])
    assert run.config["hyperparams"]["optimizer"]["learningRate"] == 5e-5


@pytest.mark.requirement("R113", "R118")
@pytest.mark.parametrize("path", ["/dry-run", "?dryRun=true"])
def test_a_dry_run_has_the_documented_shape_and_starts_nothing(client, ready, path):
    answer = post(client, RUNS + path, run_document())
    assert answer.status_code == 200
    found = answer.json()
    assert {"valid", "problems", "warnings", "configHash", "resolved", "diagnostics", "previousRuns"} <= set(found)
    assert set(found["resolved"]) >= {"config", "execution", "lengths"}
    assert Run.objects.count() == 0


def test_a_refused_dry_run_is_the_same_document(client, ready):
    answer = post(client, f"{RUNS}/dry-run", run_document(config={"maxSeqLength": -1, "x": 1})).json()
    assert answer["valid"] is False
    assert {problem["path"] for problem in answer["problems"]} == {"config.maxSeqLength", "config.x"}


def test_a_refusal_is_a_problem_document_with_every_problem(client, ready):
    answer = post(client, RUNS, run_document(config={"maxSeqLength": -1, "x": 1}))
    assert (answer.status_code, answer["Content-Type"]) == (422, "application/problem+json")
    document = answer.json()
    assert (document["code"], len(document["problems"])) == ("run_refused", 2)
    assert set(document["problems"][0]) == {"path", "code", "message", "hint"}


@pytest.mark.parametrize("body", ['{"kind": "run", "kind": "run"}', '{"kind": ', "\xff", "[1, 2"])
def test_what_is_no_document_is_refused_before_it_is_read(client, ready, body):
    answer = post(client, RUNS, body)
    assert answer.status_code in {400, 422}
    assert answer.json()["code"] in {"malformed_document", "run_refused"}


@pytest.mark.requirement("R117", "R176", "R177")
def test_the_record_has_everything_programs_rely_on(client, ready):
    checked = post(client, f"{RUNS}/dry-run", run_document()).json()
    run_id = post(client, RUNS, run_document()).json()["runId"]
    document = client.get(f"{RUNS}/{run_id[:12]}").json()
    assert document["runId"] == run_id
    assert {"phase", "workload", "configHash", "config", "execution", "stated", "progress", "observedStep", "savedStep",
            "timing", "cost", "dataFit", "modelId", "failureReason", "failureCode", "attempts"} <= set(document)
    assert "RESOLVING_DATASET" in document["timing"]["phaseMillis"]
    assert (document["config"], document["execution"]) == (checked["resolved"]["config"],
                                                           checked["resolved"]["execution"])
    assert list(document["config"])[:3] == ["dataset", "method", "hyperparams"]


@pytest.mark.requirement("R175", "R191")
def test_runs_are_listed_in_pages_by_phase_and_by_project(client, ready):
    ids = [make_run().pk for _ in range(3)]
    Run.objects.filter(pk=ids[0]).update(phase="COMPLETED")
    page = client.get(RUNS, {"limit": 1, "offset": 1}).json()
    assert (page["total"], page["limit"], page["offset"], len(page["runs"])) == (3, 1, 1, 1)
    assert len(client.get(RUNS, {"phase": "open"}).json()["runs"]) == 2
    assert len(client.get(RUNS, {"project": "triage"}).json()["runs"]) == 3
    assert len(client.get(RUNS, {"workload": "triage", "phase": "COMPLETED"}).json()["runs"]) == 1
    assert client.get(RUNS, {"project": "nobody"}).status_code == 404
    assert client.get(RUNS, {"phase": "nonsense"}).json()["code"] == "unknown_phase"
    assert client.get(RUNS, {"limit": 101}).json()["code"] == "invalid_limit"


@pytest.mark.requirement("R175")
def test_cancel_is_accepted_once_and_refused_when_the_run_is_over(client, ready):
    run_id = make_run().pk
    answer = post(client, f"{RUNS}/{run_id}/cancel")
    assert (answer.status_code, answer.json()["phase"]) == (202, "CANCELLED")
    again = post(client, f"{RUNS}/{run_id}/cancel")
    assert (again.status_code, again.json()["code"]) == (409, "run_ended")


@pytest.mark.requirement("R047")
def test_annotate_leaves_what_it_does_not_name(client, ready):
    run_id = make_run(description="one", configName="r8").pk
    answer = post(client, f"{RUNS}/{run_id}/annotate", {"description": ""}).json()
    assert (answer["description"], answer["configName"]) == ("", "r8")
    assert post(client, f"{RUNS}/{run_id}/annotate", {"colour": "red"}).status_code == 400


@pytest.mark.requirement("R086", "R181")
def test_metrics_are_steps_in_order_with_the_rest_under_measured(client, ready):
    run = make_run()
    for step in range(1, 4):
        Metric.objects.create(run=run, step=step, attempt=1, at=run.created_at,
                              values={"loss": 1 / step, "learning_rate": 0.1, "entropy": 2.0})
    found = client.get(f"{RUNS}/{run.pk}/metrics", {"limit": 2}).json()
    assert (found["total"], [row["step"] for row in found["metrics"]]) == (3, [2, 3])
    assert found["metrics"][0]["learningRate"] == 0.1
    assert found["metrics"][0]["measured"] == {"entropy": 2.0}


@pytest.mark.requirement("R160")
@pytest.mark.parametrize(("path", "column", "value"), [
    ("hparams", "hparams", {"values": {"a": 1}, "sha": "x"}),
    ("engine-config", "engine_config", {"requested": {"a": 1}, "resolved": {"a": 2}})])
def test_what_the_job_has_not_written_is_not_found(client, ready, path, column, value):
    run = make_run()
    answer = client.get(f"{RUNS}/{run.pk}/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_written")
    Run.objects.filter(pk=run.pk).update(**{column: value})
    assert client.get(f"{RUNS}/{run.pk}/{path}").json() == {"runId": run.pk} | value


def test_snapshots_are_listed_with_what_they_hold(client, ready):
    run = make_run()
    Snapshot.objects.create(run=run, attempt=1, step=5, folder="snapshots/step-5", manifest_sha256="m" * 64,
                            size_bytes=10, has_training_state=False)
    (row,) = client.get(f"{RUNS}/{run.pk}/snapshots").json()["snapshots"]
    assert (row["step"], row["artifacts"], row["status"]) == (5, ["weights"], "Available")


@pytest.mark.requirement("R190")
def test_without_a_stream_the_status_and_the_events_after_one_are_given(client, ready):
    run = make_run()
    post(client, f"{RUNS}/{run.pk}/cancel")
    found = client.get(f"{RUNS}/{run.pk}/events", {"follow": "false"}).json()
    assert found["status"]["phase"] == "CANCELLED"
    assert [event["type"] for event in found["events"]] == ["run.submitted", "run.cancel_requested", "run.cleaning_up",
                                                            "run.cancelled"]
    later = client.get(f"{RUNS}/{run.pk}/events", {"follow": "false", "after": found["events"][1]["id"]}).json()
    assert [event["type"] for event in later["events"]] == ["run.cleaning_up", "run.cancelled"]


def test_a_run_is_named_by_an_unambiguous_beginning(client, ready):
    make_run(submissionId="a")
    assert client.get(f"{RUNS}/zz").json()["code"] == "not_found"
    assert client.get(f"{RUNS}/{'0' * 64}").status_code == 404


def test_a_viewer_reads_and_changes_nothing(ready):
    accounts.create_user("eve", "viewer", actor=LOCAL)
    _, text = accounts.issue_token("t", "eve", actor=LOCAL)
    eve = Client(headers={"Authorization": f"Bearer {text}"})
    run = make_run()
    assert eve.get(f"{RUNS}/{run.pk}").status_code == 200
    assert post(eve, RUNS, run_document()).json()["code"] == "forbidden"
    assert post(eve, f"{RUNS}/{run.pk}/cancel").status_code == 403
    assert Client().get(RUNS).status_code == 401


def test_the_api_s_description_holds_the_descriptor(client, ready):
    schema = client.get("/v1/openapi.json").json()
    body = schema["paths"]["/v1/training/runs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "hyperparams" in json.dumps(body)
    assert "$ref" not in json.dumps(body)
