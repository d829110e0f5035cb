"""Requests that no person sends: each is met with a refusal in the form its sender reads."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from optimize_site.kernel import accounts, box
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.client import local_client
from optimize_site.kernel.errors import OperationError
from registry.models import Namespace
from tests import factories as make

PROBLEM = "application/problem+json"


@pytest.fixture
def program(db):
    """A program with an admin's token; errors answer as they would outside a test."""
    user, _ = accounts.create_user("prog", "admin", actor=LOCAL)
    _, text = accounts.issue_token("ci", user.username, actor=LOCAL)
    return Client(raise_request_exception=False, headers={"Authorization": f"Bearer {text}"})


@pytest.mark.parametrize(("method", "path", "status", "code"), [
    ("get", "/v1/nothing", 404, "not_found"), ("get", "/v1/training/runs/..%2fx", 404, "not_found"),
    ("put", "/v1/training/runs", 405, "method_not_allowed"), ("post", "/v1/training/info", 405, "method_not_allowed")])
def test_the_api_speaks_in_problem_documents_where_no_route_answers(program, method, path, status, code):
    answer = getattr(program, method)(path)
    assert (answer.status_code, answer["Content-Type"], answer.json()["code"]) == (status, PROBLEM, code)
    assert answer.json()["hint"]


def test_a_method_that_is_not_taken_is_met_with_those_that_are(program):
    answer = program.put("/v1/training/runs")
    assert answer["Allow"] in answer.json()["hint"]


def test_a_body_longer_than_the_route_takes_is_refused_in_a_problem_document(program, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    answer = program.post("/v1/training/trials", {"model": "a/b", "input": "x" * 2000}, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"], answer.json()["code"]) == (400, PROBLEM, "invalid_input")


def test_a_submission_s_name_that_is_too_long_names_the_field(program):
    answer = program.post("/v1/training/evaluations", {"model": "a/b", "submissionId": "x" * 129},
                          content_type="application/json")
    assert (answer.status_code, answer.json()["problems"][0]["path"]) == (400, "submissionId")


def test_what_breaks_inside_is_a_problem_document_without_its_insides(program, monkeypatch):
    monkeypatch.setattr(box, "capacity", lambda *_, **__: 1 / 0)
    answer = program.get("/v1/training/capacity")
    assert (answer.status_code, answer["Content-Type"], answer.json()["code"]) == (500, PROBLEM, "internal_error")
    assert b"ZeroDivision" not in answer.content


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
@pytest.mark.parametrize(("path", "body"), [
    ("/v1/box/users", {"username": "TEXT"}), ("/v1/box/tokens", {"name": "x", "user": "TEXT"}),
    ("/v1/training/workloads", {"name": "w", "description": "TEXT"}),
    ("/v1/registry/models/a/b/register", {"descriptor": {"deep": [{"TEXT": 1}]}}),
    ("/v1/training/trials", {"model": "a/b", "messages": [{"role": "user", "content": "TEXT"}]})])
def test_a_body_with_a_text_that_cannot_be_kept_names_the_field(program, path, body, text):
    sent = json.dumps(body).replace("TEXT", json.dumps(text)[1:-1])
    answer = program.post(path, sent, content_type="application/json")
    assert (answer.status_code, answer.json()["problems"][0]["code"]) == (400, "unusable_text")
    assert answer.json()["problems"][0]["path"] in body


def test_a_place_in_a_list_is_written_alike_by_whoever_refuses_it(program):
    shard = {"sha256": "0" * 64, "bytes": 5}
    for shards in ([shard, shard | {"bytes": "many"}], [shard, shard | {"bytes": 0}]):
        answer = program.post("/v1/registry/dataset-uploads", {"reference": "a/b", "shards": shards},
                              content_type="application/json")
        assert [problem["path"] for problem in answer.json()["problems"]] == ["shards[1].bytes"]
    body = make.run_document(config={"reward": {"terms": [{"kind": "rule", "weight": "heavy"}]}})
    problems = program.post("/v1/training/runs/dry-run", body, content_type="application/json").json()["problems"]
    assert "config.reward.terms[0].weight" in [problem["path"] for problem in problems]


@pytest.mark.parametrize("path", ["/workloads/a%00b", "/workloads/a%00b/promote", "/runs?workload=a%00b",
                                  "/evaluations?workload=a%00b", "/box/logs/" + "x" * 300, "/docs/" + "x" * 300])
@pytest.mark.django_db(transaction=True)
def test_a_page_with_an_odd_name_is_refused_and_does_not_break(admin, path):
    admin.raise_request_exception = False
    answer = admin.get(path)
    assert answer.status_code in {400, 404}
    assert b"Something broke" not in answer.content


@pytest.mark.parametrize("name", ["é", "a\u202eb", "..", "%2e"])
def test_a_command_s_name_reaches_the_box_as_it_was_typed(db, name):
    with pytest.raises(OperationError) as info:
        local_client().post(f"/v1/box/tokens/{name.replace('%', '%25')}/revoke")
    assert info.value.status == 404
    assert repr(name) in info.value.detail or name == ".."


def test_the_pages_keep_their_own_voice(viewer):
    assert viewer.get(reverse("box:home") + "nowhere")["Content-Type"].startswith("text/html")


@pytest.mark.parametrize(("body", "words"), [
    (b'{"grader": "exact", "grader": "regex"}', "the field 'grader' twice"), (b'{"grader": ', "column 12"),
    (b'{"grader": NaN}', "NaN"), (b"\xff", "no UTF-8"), (b"[" * 100_000, "nested too deep")])
def test_a_body_that_is_not_one_json_value_is_refused_with_what_is_wrong_with_it(program, body, words):
    answer = program.post("/v1/training/graders/validate", body, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (400, PROBLEM)
    assert words in answer.json()["detail"]


@pytest.mark.parametrize(("address", "code", "words"), [
    ("/v1/training/runs?fase=FAILED", "unknown_parameter", "'fase'"),
    ("/v1/training/graders?limit=5", "unknown_parameter", "'limit'"),
    ("/v1/training/runs?limit=5&limit=6", "repeated_parameter", "limit is stated 2 times")])
def test_a_parameter_of_the_address_that_would_count_for_nothing_is_refused(program, address, code, words):
    answer = program.get(address)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert words in answer.json()["detail"] and answer.json()["hint"]


@pytest.mark.parametrize("path", ["/v1/training/base-models/acme/tiny/select", "/v1/registry/namespaces/acme/archive"])
def test_a_body_where_a_route_takes_none_is_refused_and_nothing_is_done(program, path):
    namespace = Namespace.objects.create(name="acme")
    answer = program.post(path, {"force": True}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "unexpected_body")
    assert "takes none" in answer.json()["detail"] and answer.json()["hint"]
    assert program.post(path, {"force": "1"}).json()["code"] == "unexpected_body"
    namespace.refresh_from_db()
    assert namespace.archived_at is None


@pytest.mark.parametrize("body", ["", " \n", "{}"])
def test_a_body_that_says_nothing_is_taken_for_none(program, body):
    namespace = Namespace.objects.create(name="acme")
    path = "/v1/registry/namespaces/acme/archive"
    assert program.post(path, body, content_type="application/json").status_code == 200
    namespace.refresh_from_db()
    assert namespace.archived_at


@pytest.mark.parametrize("position", [True, "0", 0.5])
def test_a_value_of_another_kind_is_refused_and_not_made_to_fit(program, position):
    answer = program.post("/v1/training/evaluations/0/marks", {"marks": [{"position": position, "verdict": "right"}]},
                          content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["problems"][0]["path"] == "marks[0].position"
