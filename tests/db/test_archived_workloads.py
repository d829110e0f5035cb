"""Archiving workloads, with every consequence."""

import json
import threading

import pytest
from django.db import connection, transaction
from django.test import Client

from endpoints.operations.trials import start_trial
from evaluations.management.commands.evaluations import Command as Evaluations
from evaluations.operations.evaluations import Request, retry_evaluation, start_evaluation
from evaluations.operations.promotion import promote
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.errors import OperationError
from registry import queries
from registry.errors import WorkInProgress, WorkloadArchived
from registry.management.commands.workloads import Command as Workloads
from registry.models import BaseModel, Workload
from registry.operations.artifacts import set_alias
from registry.operations.namespaces import archive_namespace
from registry.operations.workloads import archive_workload, set_reference, unarchive_workload
from registry.queries import resolve_version
from registry.workload_queries import get_workload, list_workloads
from runs.errors import RunRefused
from runs.management.commands.runs import Command as Runs
from runs.models import Run
from runs.operations import submit_run
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def names(client, route, key, **query):
    return [row["reference"] if "reference" in row else row["name"] for row in client.get(route, query).json()[key]]


@pytest.fixture
def worked():
    """A workload with a finished run and a finished evaluation."""
    make.put_weights(make.make_base_model())
    make.make_dataset("triage/eval", 4)
    workload = make.make_workload()
    run = make.make_run(phase="COMPLETED")
    row = start_evaluation(Request(model="acme/tiny", dataset="triage/eval", workload="triage"),
                           actor=LOCAL).evaluation
    type(row).objects.filter(pk=row.pk).update(phase="COMPLETED")
    row.refresh_from_db()
    return {"workload": workload, "run": run, "evaluation": row}


@pytest.mark.requirement("R297", "R299")
def test_an_archived_workload_leaves_every_list_and_comes_back_where_it_is_asked_for_or_named(client, worked):
    archive_workload(worked["workload"], actor=LOCAL)
    for route, key in (("/v1/training/workloads", "workloads"), ("/v1/training/projects", "projects"),
                       ("/v1/training/runs", "runs"), ("/v1/training/evaluations", "evaluations")):
        assert client.get(route).json()["total"] == 0, route
        shown = client.get(route, {"archived": "true"}).json()[key]
        assert [row["isArchived"] for row in shown] == [True], route
        if key in {"runs", "evaluations"}:
            assert client.get(route, {"project": "triage"}).json()[key] == shown
            assert client.get(route, {"workload": "triage"}).json()["total"] == 1
    assert list(list_workloads()) == []
    unarchive_workload(worked["workload"], actor=LOCAL)
    assert client.get("/v1/training/runs").json()["total"] == 1


@pytest.mark.requirement("R299", "R300")
def test_commands_hide_an_archived_workloads_rows_and_mark_them_where_they_are_shown(worked, capsys):
    assert Workloads().run(["archive", "triage"]) == 2
    assert Workloads().run(["archive", "triage", "--force"]) == 0
    capsys.readouterr()
    for command, verb in ((Workloads, "list"), (Runs, "list"), (Evaluations, "list")):
        assert command().run([verb]) == 0
        assert "triage" not in capsys.readouterr().out
        assert command().run([verb, "--archived"]) == 0
        assert "triage (archived)" in capsys.readouterr().out
    for command in (Runs, Evaluations):
        assert command().run(["list", "--project", "triage"]) == 0
        assert "triage (archived)" in capsys.readouterr().out
    for command, name in ((Workloads, "triage"), (Runs, worked["run"].pk), (Evaluations, worked["evaluation"].pk)):
        assert command().run(["get", name]) == 0
        assert "triage (archived)" in capsys.readouterr().out


@pytest.mark.requirement("R300")
def test_a_list_of_evaluations_shows_each_rows_workload(client, worked, capsys):
    assert client.get("/v1/training/evaluations").json()["evaluations"][0]["workload"] == "triage"
    assert Evaluations().run(["list"]) == 0
    header, row = capsys.readouterr().out.splitlines()[:2]
    assert "WORKLOAD" in header and "triage" in row


@pytest.mark.requirement("R297")
def test_an_archived_workload_takes_no_new_work_and_no_new_candidate(worked):
    workload, row = worked["workload"], worked["evaluation"]
    model = make.make_adapter(workload, BaseModel.objects.get())
    archive_workload(workload, actor=LOCAL)
    workload.refresh_from_db()
    attempts = {
        "evaluation": lambda: start_evaluation(Request(model="acme/tiny", dataset="triage/eval", workload="triage"),
                                               actor=LOCAL),
        "retry": lambda: retry_evaluation(row, actor=LOCAL),
        "trial": lambda: start_trial(model, [{"role": "user", "content": "hello"}], actor=LOCAL),
        "candidate": lambda: set_reference(workload, "candidate", "triage/tiny", actor=LOCAL),
        "promotion": lambda: promote(workload, model, actor=LOCAL, force=True, note="please"),
        "alias": lambda: set_alias(model.artifact, "champion", model, actor=LOCAL, force=True, note="please")}
    for name, attempt in attempts.items():
        with pytest.raises(WorkloadArchived) as refused:
            attempt()
        assert "./optimize workloads unarchive triage" in refused.value.hint, name
    with pytest.raises(RunRefused) as refused:
        submit_run(make.run_document(), actor=LOCAL)
    assert [problem.code for problem in refused.value.problems] == ["workload_archived"]
    assert "workloads unarchive triage" in refused.value.problems[0].hint


@pytest.mark.requirement("R299")
def test_models_of_an_archived_workload_can_still_be_named(worked):
    model = make.make_adapter(worked["workload"], BaseModel.objects.get())
    archive_workload(worked["workload"], actor=LOCAL)
    assert resolve_version("model", "triage/tiny:v1") == model
    assert get_workload("triage").archived_at is not None


@pytest.mark.requirement("R298")
def test_archiving_is_refused_while_work_is_in_progress_naming_each_piece(client, worked):
    model = make.make_adapter(worked["workload"], BaseModel.objects.get())
    run = make.make_run()
    paused = make.make_run(phase="PAUSED", config={"hyperparams": {"training": {"seed": 7}}})
    row = start_evaluation(Request(model="triage/tiny", dataset="triage/eval", workload="triage"),
                           actor=LOCAL).evaluation
    trial = start_trial(model, [{"role": "user", "content": "hello"}], actor=LOCAL)
    with pytest.raises(WorkInProgress) as refused:
        archive_workload(worked["workload"], actor=LOCAL)
    for item in (run, paused, row, trial):
        assert f"{item.pk[:12]} ({item.phase})" in refused.value.detail
    assert {problem.path.split()[0] for problem in refused.value.problems} == {"run", "evaluation", "trial"}
    assert any("runs cancel" in problem.hint for problem in refused.value.problems)
    answer = client.post("/v1/training/projects/triage/archive")
    assert (answer.status_code, answer.json()["code"]) == (409, "work_in_progress")
    assert list_workloads().count() == 1


@pytest.mark.requirement("R301")
def test_archiving_a_workload_leaves_its_namespace_open_and_says_so(worked, client, capsys):
    assert Workloads().run(["archive", "triage", "--force"]) == 0
    said = capsys.readouterr().out
    assert "Its namespace triage is still open" in said and "registry namespaces archive triage" in said
    assert queries.get_namespace("triage").archived_at is None
    assert client.get("/v1/training/workloads/triage").json()["isNamespaceArchived"] is False
    assert make.make_dataset("triage/later").reference == "triage/later:v1"
    archive_namespace(queries.get_namespace("triage"), actor=LOCAL)
    assert Workloads().run(["unarchive", "triage"]) == 0
    assert Workloads().run(["archive", "triage", "--force"]) == 0
    assert "still open" not in capsys.readouterr().out


def test_archiving_is_part_of_the_workloads_history(client, worked):
    archive_workload(worked["workload"], actor=LOCAL)
    archive_workload(worked["workload"], actor=LOCAL)
    unarchive_workload(worked["workload"], actor=LOCAL)
    history = client.get("/v1/training/workloads/triage/history").json()["history"]
    assert [row["type"] for row in history] == ["workload.created", "workload.archived", "workload.unarchived"]


@pytest.mark.requirement("R298")
@pytest.mark.django_db(transaction=True)
def test_work_that_begins_while_the_workload_is_being_archived_is_refused():
    """The submission saw an open workload; it waits for the archiving, and then looks again."""
    make.make_run(phase="CANCELLED")
    workload = Workload.objects.get()
    refused = []

    def submit():
        try:
            submit_run(make.run_document(), actor=LOCAL)
        except OperationError as error:
            refused.append(error.code)
        finally:
            connection.close()

    submitting = threading.Thread(target=submit)
    with transaction.atomic():
        archive_workload(workload, actor=LOCAL)
        submitting.start()
        _wait_until_somebody_waits()
    submitting.join()
    assert refused == ["workload_archived"]
    assert Run.objects.count() == 1


def _wait_until_somebody_waits():
    with connection.cursor() as cursor:
        for _ in range(400):
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
            cursor.execute("SELECT pg_sleep(0.01)")
    raise AssertionError("nobody waited for the workload's row")


@pytest.mark.requirement("R293", "R297")
def test_documents_are_the_same_whoever_asks(client, worked):
    answer = client.post("/v1/training/workloads/triage/archive")
    assert answer.status_code == 200
    assert answer.json() == client.get("/v1/training/projects/triage").json()
    assert json.loads(json.dumps(answer.json()))["isArchived"] is True
