"""Workloads: names, what judges them, references, history, on all surfaces and under both words."""

import json

import pytest
from django.test import Client

from evaluations.errors import HostNotAllowed
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.errors import Conflict, Forbidden, InvalidInput, NotFound, Refused
from registry.management.commands.workloads import Command
from registry.models import Namespace
from registry.operations import workloads as operations
from registry.workload_queries import find_workload, get_workload, history_of, references_of
from tests.factories import make_adapter, make_base_model, make_dataset, make_workload, put_weights

pytestmark = pytest.mark.django_db
ROUTE = "/v1/training/workloads"


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"}, content_type="application/json")


def post(client, path, **body):
    return client.post(path, json.dumps(body), content_type="application/json")


@pytest.mark.requirement("R021")
def test_a_workload_states_dataset_and_grader_and_is_its_namespace():
    make_dataset("triage/eval")
    workload = make_workload("triage", dataset="eval")
    assert (workload.namespace_id, workload.grader) == ("triage", "json-label-match")
    assert workload.evaluation_dataset.reference == "triage/eval:v1"
    assert find_workload("triage") == find_workload(workload.pk) == find_workload(workload.pk[:9]) == workload


@pytest.mark.parametrize("name", ["", "Triage", "-x", "x-", "a/b", "..", "x" * 65, "a b", "trïage", "deadbeef",
                                  "0123456789ab", "counts", "latest", "a\n"])
def test_names_that_are_none_are_refused(name):
    with pytest.raises(Refused) as refused:
        make_workload(name)
    assert refused.value.code == "malformed_name"


@pytest.mark.parametrize("name", ["a", "support-triage", "v2.x_y", "feed", "x" * 64])
def test_other_names_are_taken(name):
    assert make_workload(name).name == name


def test_a_name_is_taken_once():
    make_workload("triage")
    with pytest.raises(Conflict) as refused:
        make_workload("triage")
    assert refused.value.code == "workload_exists"


def test_a_namespace_made_by_a_registration_can_become_a_workloads():
    make_dataset("triage/train")
    assert make_workload("triage").namespace_id == "triage"


def test_renaming_changes_the_label_and_frees_the_name_but_not_the_namespace():
    workload = make_workload("triage")
    operations.rename_workload(workload, "support", actor=LOCAL)
    workload = get_workload("support")
    assert workload.namespace_id == "triage"
    assert find_workload("triage") is None
    with pytest.raises(Conflict) as refused:
        make_workload("triage")
    assert refused.value.code == "namespace_taken"
    other = make_workload("other")
    with pytest.raises(Conflict):
        operations.rename_workload(other, "triage", actor=LOCAL)
    assert operations.rename_workload(workload, "triage", actor=LOCAL).name == "triage"


def test_an_archived_namespace_takes_no_workload():
    from django.utils import timezone

    Namespace.objects.create(name="old", created_by="x", archived_at=timezone.now())
    with pytest.raises(Conflict) as refused:
        make_workload("old")
    assert "unarchive" in refused.value.hint


def test_an_unknown_dataset_and_a_grader_that_cannot_be_used_are_refused():
    with pytest.raises(NotFound):
        make_workload("triage", dataset="triage/none")
    make_dataset("triage/eval")
    with pytest.raises(NotFound, match="triage/judge"):
        make_workload("triage", dataset="triage/eval", grader="model:triage/judge")
    with pytest.raises(HostNotAllowed, match="not be asked"):
        make_workload("triage", dataset="triage/eval", grader="http:https://judge.example/")


@pytest.mark.requirement("R021")
def test_references_point_at_models_and_base_at_base_models_only():
    workload, base = make_workload("triage"), put_weights(make_base_model())
    adapter = make_adapter(workload, base)
    operations.set_reference(workload, "base", "acme/tiny", actor=LOCAL)
    operations.set_reference(workload, "candidate", adapter.pk[:10], actor=LOCAL)
    found = references_of(workload)
    assert found["base"].version.reference == "acme/tiny:v1"
    assert found["candidate"].version.reference == "triage/tiny:v1"
    with pytest.raises(Refused) as refused:
        operations.set_reference(workload, "base", "triage/tiny", actor=LOCAL)
    assert refused.value.code == "not_a_base_model" and "acme/tiny" in refused.value.hint
    with pytest.raises(InvalidInput):
        operations.set_reference(workload, "best", "triage/tiny", actor=LOCAL)


def test_history_tells_every_change_in_order():
    make_dataset("triage/eval")
    workload = make_workload("triage")
    operations.set_evaluation(workload, dataset="eval", actor=LOCAL)
    operations.set_evaluation(workload, dataset="eval", actor=LOCAL)
    operations.annotate_workload(workload, description="tickets", actor=LOCAL)
    operations.rename_workload(workload, "support", actor=LOCAL)
    assert [event.type for event in history_of(workload)] == [
        "workload.created", "workload.evaluation_set", "workload.annotated", "workload.renamed"]
    renamed = history_of(workload).last()
    assert renamed.data == {"name": "support", "previous": "triage"} and renamed.actor == "local"


def test_an_empty_note_clears_and_none_leaves():
    workload = make_workload("triage", description="one")
    assert operations.annotate_workload(workload, description=None, actor=LOCAL).description == "one"
    assert operations.annotate_workload(workload, description="", actor=LOCAL).description == ""


def test_a_viewer_changes_nothing():
    workload, viewer = make_workload("triage"), Actor("vic", "viewer")
    for change in (lambda: operations.create_workload("x", actor=viewer),
                   lambda: operations.rename_workload(workload, "y", actor=viewer),
                   lambda: operations.annotate_workload(workload, description="z", actor=viewer),
                   lambda: operations.set_evaluation(workload, dataset="d", actor=viewer),
                   lambda: operations.set_reference(workload, "base", "m", actor=viewer)):
        with pytest.raises(Forbidden):
            change()


def test_the_routes_answer_under_both_words(client):
    make_dataset("triage/eval")
    made = post(client, "/v1/training/projects", name="triage", dataset="eval")
    assert made.status_code == 201
    assert client.get(ROUTE).json()["workloads"][0]["name"] == "triage"
    assert client.get("/v1/training/projects").json()["projects"][0]["name"] == "triage"
    assert client.get("/v1/training/projects/triage").json() == client.get(f"{ROUTE}/triage").json()
    assert client.get(f"{ROUTE}/triage").json()["evaluation"]["dataset"] == "triage/eval:v1"
    assert client.get(f"{ROUTE}/nothing").json()["code"] == "unknown_workload"
    assert client.get(f"{ROUTE}/triage/refs/champion").json()["code"] == "unset_reference"
    assert post(client, ROUTE, name="x", colour="red").status_code == 400
    assert post(client, f"{ROUTE}/triage/annotate", description="hi").json()["description"] == "hi"
    assert len(client.get(f"{ROUTE}/triage/history").json()["history"]) == 2


def test_the_command_does_it_all(capsys):
    make_dataset("triage/eval")
    put_weights(make_base_model())
    run = Command().run
    assert run(["create", "triage"]) == 0
    workload_id = capsys.readouterr().out.strip()
    assert get_workload(workload_id).name == "triage"
    assert run(["set-evaluation", "triage", "--dataset", "eval"]) == 0
    assert run(["refs", "set", "triage", "base", "acme/tiny"]) == 0
    assert run(["refs", "get", "triage", "base"]) == 0
    assert "acme/tiny:v1" in capsys.readouterr().out
    assert run(["annotate", "triage", "--description", "tickets"]) == 0
    assert run(["history", "triage"]) == 0
    assert "evaluation set" in capsys.readouterr().out
    assert run(["list", "--jq", ".workloads[].name"]) == 0
    assert capsys.readouterr().out == "triage\n"
    assert run(["get", "nothing"]) == 4
    assert run(["create", "triage"]) == 3
    assert run(["rename", "triage", "support"]) == 0
