"""Data over the API and by command: the same bytes in, the same documents out."""

import io
import json
import sys

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from datasets.management.commands.datasets import Command as Datasets
from optimize_site.kernel.accounts import issue_token
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.models import User
from registry.management.commands.registry import Command as Registry
from registry.models import Artifact

pytestmark = pytest.mark.django_db
OTHER = b'{"messages": [{"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Good day."}]}'
BODY = b'{"messages": [{"role": "user", "content": "Where is my parcel?"}, {"role": "assistant", "content": "No."}]}\n'
ROUTE = "/v1/registry/datasets"


class Api:
    """The API as a token's holder calls it."""

    def __init__(self, token=LOCAL_SECRET):
        self.client = Client(headers={"Authorization": f"Bearer {token}"})

    def __call__(self, method, path, body=None, **more):
        data = body if isinstance(body, bytes) else json.dumps(body or {})
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        if method == "get":
            return self.client.get(path, more)
        return getattr(self.client, method)(path, data=data, content_type=kind, query_params=more)


@pytest.fixture
def api():
    return Api()


def command(noun, *argv):
    return noun().run([str(part) for part in argv])


def printed(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(BODY)
    return path


@pytest.mark.requirement("R020", "R010")
def test_a_body_becomes_a_version_and_the_same_body_the_same(api):
    raw = api("post", f"{ROUTE}/support/raw/versions", BODY).json()
    made = api("post", f"{ROUTE}/support/train/versions", BODY, alias="good", lineage='{"parents": ["support/raw"]}')
    assert made.status_code == 201
    document = made.json()
    assert document["reference"] == "support/train:v1"
    assert document["aliases"] == ["good"]
    assert document["lineage"] == {"parents": [{"kind": "dataset/source", "reference": "support/raw:v1",
                                                "versionId": raw["versionId"]}]}
    assert (document["exampleCount"], document["toolRows"], document["isNew"]) == (1, 0, True)
    assert document["objects"][0]["location"] == f"{ROUTE}/support/train/versions/v1/objects/examples.jsonl"
    again = api("post", f"{ROUTE}/support/train/versions", BODY)
    assert (again.status_code, again.json()["isNew"]) == (200, False)


def test_a_version_is_read_by_every_label(api):
    digest = api("post", f"{ROUTE}/support/train/versions", BODY, alias="good").json()["digest"]
    for label in ("v1", "good", "latest", digest):
        assert api("get", f"{ROUTE}/support/train/versions/{label}").json()["reference"] == "support/train:v1"
    assert api("get", f"{ROUTE}/support/train").json()["aliases"] == {"good": "v1"}
    assert api("get", f"{ROUTE}/support/train/versions").json()["versions"][0]["reference"] == "support/train:v1"
    listed, = api("get", ROUTE).json()["datasets"]
    assert {key: listed[key] for key in ("reference", "latest", "versionCount", "exampleCount", "sizeBytes")} == {
        "reference": "support/train", "latest": "v1", "versionCount": 1, "exampleCount": 1, "sizeBytes": len(BODY)}


def test_a_bad_body_is_a_problem_document_with_every_line(api):
    answer = api("post", f"{ROUTE}/support/train/versions", BODY + b"{}\n[1]\n")
    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"
    document = answer.json()
    assert (document["code"], document["badLines"], document["moreBadLines"]) == ("dataset_invalid", 2, 0)
    assert [problem["path"] for problem in document["problems"]] == ["line 2: messages", "line 3"]
    assert not Artifact.objects.exists()


@pytest.mark.requirement("R303")
def test_a_body_larger_than_the_limit_is_refused_from_its_stated_length(api, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_DATASETS_MAX_BYTES", str(len(BODY) - 1))
    answer = api("post", f"{ROUTE}/support/train/versions", BODY)
    assert (answer.status_code, answer.json()["code"]) == (413, "dataset_too_large")
    assert answer.json()["maxBytes"] == len(BODY) - 1


@pytest.mark.parametrize("name", ["..%2fx", "..%252fx", "..%5cx", "%2fetc%2fx", "C:%5cx", "a%00b", "a%0ab",
                                  "%e2%80%aeb", "x" * 300, "..", "%2e%2e", "-a", "a%20b"])
@pytest.mark.parametrize("path", ["{}/train/versions", "support/{}/versions", "support/train/versions/{}",
                                  "support/train/aliases/{}", "support/train/versions/v1/objects/{}"])
def test_names_in_routes_are_never_paths(api, name, path):
    api("post", f"{ROUTE}/support/train/versions", BODY)
    answer = api("get", f"{ROUTE}/{path.format(name)}")
    assert answer.status_code in (400, 404)
    if path.endswith("/versions"):
        assert api("post", f"{ROUTE}/{path.format(name)}", BODY).status_code in (400, 404, 405)
    assert Artifact.objects.count() == 1


def test_an_object_is_downloaded_as_it_was_stored(api):
    body = b"\xef\xbb\xbf" + BODY.replace(b"\n", b"\r\n")
    api("post", f"{ROUTE}/support/train/versions", body)
    answer = api("get", f"{ROUTE}/support/train/versions/v1/objects/examples.jsonl")
    assert b"".join(answer.streaming_content) == body
    assert answer["Content-Disposition"] == 'attachment; filename="examples.jsonl"'
    assert answer["Content-Length"] == str(len(body))
    assert api("get", f"{ROUTE}/support/train/versions/v1/objects/other").json()["code"] == "unknown_object"


@pytest.mark.django_db(transaction=True)
def test_an_object_is_streamed_by_the_server_that_the_box_runs(api):
    api("post", f"{ROUTE}/support/train/versions", BODY)

    async def fetch():
        path = f"{ROUTE}/support/train/versions/v1/objects/examples.jsonl"
        answer = await AsyncClient().get(path, headers={"Authorization": f"Bearer {LOCAL_SECRET}"})
        assert answer.status_code == 200, answer.content
        assert answer.is_async
        return b"".join([chunk async for chunk in answer.streaming_content])

    assert async_to_sync(fetch)() == BODY


def test_an_alias_is_set_read_moved_and_removed(api):
    api("post", f"{ROUTE}/support/train/versions", BODY)
    api("post", f"{ROUTE}/support/train/versions", OTHER)
    alias = f"{ROUTE}/support/train/aliases/good"
    assert api("put", alias, {"version": "v1"}).json()["version"] == "v1"
    moved = api("put", alias, {"version": "v2"}).json()
    assert [move["version"] for move in moved["history"]] == ["v1", "v2"]
    assert api("get", alias).json() == moved
    latest = api("get", f"{ROUTE}/support/train/aliases/latest").json()
    assert [move["version"] for move in latest["history"]] == ["v1", "v2"]
    assert api("delete", alias).status_code == 204
    assert api("get", alias).status_code == 404
    assert api("put", f"{ROUTE}/support/train/aliases/latest", {"version": "v1"}).json()["code"] == "reserved_alias"
    assert api("put", alias, {"version": "v7"}).status_code == 404


def test_notes_are_set_on_versions_and_namespaces(api):
    api("post", f"{ROUTE}/support/train/versions", BODY)
    noted = api("post", f"{ROUTE}/support/train/versions/v1/annotate", {"description": "<b>cleaned</b>"}).json()
    assert noted["description"] == "<b>cleaned</b>"
    api("post", "/v1/registry/namespaces/support/annotate", {"description": "tickets"})
    assert api("get", "/v1/registry/namespaces/support").json() | {"createdAt": 0} == {
        "name": "support", "description": "tickets", "createdBy": "local", "createdAt": 0, "isArchived": False,
        "datasets": ["train"], "models": [], "bundles": []}
    assert api("get", "/v1/registry/namespaces").json()["namespaces"][0]["datasets"] == 1
    assert api("get", "/v1/registry/info").json()["datasets"]["maxBytes"] == 256 * 1024 * 1024


def test_rows_are_paged_and_searched(api):
    api("post", f"{ROUTE}/support/train/versions", BODY + OTHER)
    rows = f"{ROUTE}/support/train/versions/v1/rows"
    assert [row["position"] for row in api("get", rows, search="good DAY").json()["rows"]] == [1]
    assert api("get", rows, limit=1).json()["nextOffset"] == 1
    assert api("get", rows, limit=101).json()["code"] == "invalid_limit"
    assert api("get", rows, offset=-1).json()["code"] == "invalid_offset"
    assert api("get", rows, offset=10**30).json()["rows"] == []


@pytest.mark.django_db(transaction=True)
def test_what_the_database_cannot_keep_is_refused(api):
    api("post", f"{ROUTE}/support/train/versions", BODY)
    noted = api("post", f"{ROUTE}/support/train/versions/v1/annotate", {"description": "a\0b"})
    assert (noted.status_code, noted.json()["problems"][0]["path"]) == (400, "description")
    assert api("get", ROUTE, offset=10**30).status_code == 400
    assert api("get", f"{ROUTE}/support/train/versions/v99999999999999999999").status_code in (400, 404)
    lineage = api("post", f"{ROUTE}/support/other/versions", BODY, lineage='{"a": "\\u0000"}')
    assert lineage.status_code == 400


def test_the_old_names_are_listed_found_and_moved(api):
    made = api("post", "/v1/datasets", BODY, name="triage").json()
    other = api("post", "/v1/datasets", OTHER).json()
    listed = api("get", "/v1/datasets").json()
    assert [(row["hash"], row["names"], row["exampleCount"]) for row in listed["datasets"]] == [
        (other["hash"], [], 1), (made["hash"], ["triage"], 1)]
    for text in ("triage", made["hash"], made["hash"][:9], "default/triage:v1"):
        assert api("get", f"/v1/datasets/{text}").json()["hash"] == made["hash"]
    assert api("put", "/v1/datasets/triage", {"dataset": other["hash"][:9]}).json()["names"] == ["triage"]
    assert api("get", "/v1/datasets/triage").json()["hash"] == other["hash"]


def test_a_viewer_reads_and_does_not_write(api):
    api("post", f"{ROUTE}/support/train/versions", BODY)
    User.objects.create_user("vera", role="viewer")
    vera = Api(issue_token("t", "vera", actor=LOCAL)[1])
    assert vera("get", f"{ROUTE}/support/train").status_code == 200
    for method, path, body in (("post", f"{ROUTE}/support/train/versions", BODY), ("post", "/v1/datasets", BODY),
                               ("put", f"{ROUTE}/support/train/aliases/x", {"version": "v1"}),
                               ("delete", f"{ROUTE}/support/train/aliases/x", None),
                               ("post", f"{ROUTE}/support/train/versions/v1/annotate", {"description": "x"}),
                               ("put", "/v1/datasets/x", {"dataset": "support/train"})):
        assert vera(method, path, body).status_code == 403
    assert Api("opt_nobody")("get", ROUTE).status_code == 401


# Commands ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R011")
def test_a_file_is_registered_and_read_back_by_command(file, capsys):
    assert command(Registry, "datasets", "register", "support/train", "-f", file, "--alias", "good") == 0
    assert capsys.readouterr().out == "support/train:v1\n"
    assert command(Registry, "datasets", "get", "support/train:good", "-o", "json") == 0
    assert printed(capsys)["objects"][0]["location"].endswith("/objects/examples.jsonl")
    assert command(Registry, "datasets", "versions", "support/train", "--json", "reference") == 0
    assert printed(capsys) == [{"reference": "support/train:v1"}]
    for argv in (["get", "support/train"], ["get", "support/train:v1"], ["list"], ["versions", "support/train"]):
        assert command(Registry, "datasets", *argv) == 0
        assert "support/train" in capsys.readouterr().out


def test_an_object_is_written_to_standard_output(file, monkeypatch):
    command(Registry, "datasets", "register", "support/train", "-f", file)
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    assert command(Registry, "datasets", "object", "support/train", "examples.jsonl") == 0
    assert out.getvalue() == BODY
    assert command(Registry, "datasets", "object", "support/train", "../../../x") == 4


def test_aliases_and_notes_by_command(file, capsys):
    command(Registry, "datasets", "register", "support/train", "-f", file)
    capsys.readouterr()
    assert command(Registry, "datasets", "alias", "set", "support/train:good", "--version", "v1") == 0
    assert command(Registry, "datasets", "alias", "get", "support/train:latest") == 0
    assert command(Registry, "datasets", "alias", "rm", "support/train:good") == 0
    assert command(Registry, "datasets", "alias", "get", "support/train:good") == 4
    assert command(Registry, "datasets", "alias", "set", "support/train", "--version", "v1") == 2
    assert command(Registry, "datasets", "annotate", "support/train", "--description", "cleaned") == 0
    assert "cleaned" in capsys.readouterr().out
    assert command(Registry, "namespaces", "annotate", "support", "--description", "tickets") == 0
    for argv in (["namespaces", "list"], ["namespaces", "get", "support"], ["info"]):
        assert command(Registry, *argv) == 0


def test_a_bad_file_is_refused_with_three(tmp_path, capsys):
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b"{}\n")
    assert command(Registry, "datasets", "register", "support/train", "-f", bad) == 3
    said = capsys.readouterr().err
    assert "line 1: messages: A row needs" in said
    assert "Right: " in said
    assert command(Registry, "datasets", "register", "support/train", "-f", bad, "-o", "json") == 3
    assert printed(capsys)["code"] == "dataset_invalid"
    assert command(Registry, "datasets", "register", "support/train", "-f", tmp_path / "none") == 2
    assert command(Registry, "datasets", "register", "../train", "-f", bad) == 2
    assert command(Registry, "datasets", "get", "support/none") == 4


def test_a_file_too_large_is_refused_before_a_byte_is_sent(file, capsys, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_DATASETS_MAX_BYTES", "10")
    monkeypatch.setattr("optimize_site.kernel.client.Client.send", None)
    assert command(Registry, "datasets", "register", "support/train", "-f", file) == 3
    assert "larger than this box takes, 10 bytes at most, and one of its lines is longer" in capsys.readouterr().err


@pytest.mark.requirement("R020")
def test_bare_names_by_command(file, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BODY)))
    assert command(Datasets, "create", "-f", "-", "--name", "triage") == 0
    found = capsys.readouterr().out.strip()
    assert command(Datasets, "list", "--json", "hash,names,exampleCount") == 0
    assert printed(capsys) == [{"hash": found, "names": ["triage"], "exampleCount": 1}]
    assert command(Datasets, "name", "other", found[:12]) == 0
    assert command(Datasets, "list", "--jq", ".datasets[0].names[0]") == 0
    assert "other" in capsys.readouterr().out
    for argv in (["get", "other"], ["list"], ["rows", "other"], ["rows", "default/triage:v1", "--search", "parcel"]):
        assert command(Datasets, *argv) == 0
    assert "Where is my parcel?" in capsys.readouterr().out
    assert command(Datasets, "get", "nothing") == 4


def test_nothing_is_registered_with_no_upload(file):
    assert command(Registry, "datasets", "register", "support/train", "-f", file, "--no-upload") == 0
    assert command(Datasets, "create", "-f", file, "--no-upload") == 0
    assert not Artifact.objects.exists()


def test_lineage_is_read_from_a_file(file, tmp_path, capsys):
    (tmp_path / "lineage.json").write_text('{"producer": "clean.py"}')
    assert command(Registry, "datasets", "register", "support/train", "-f", file, "--lineage",
                   tmp_path / "lineage.json", "-o", "json") == 0
    assert printed(capsys)["lineage"] == {"producer": "clean.py"}
    (tmp_path / "lineage.json").write_text("[1]")
    assert command(Registry, "datasets", "register", "support/train", "-f", file, "--lineage",
                   tmp_path / "lineage.json") == 2


def test_what_is_noticed_about_a_file_is_said_of_it_though_its_examples_were_registered_before(api):
    written_otherwise = b"\n" + BODY.replace(b"\n", b"\r\n")
    replies = [api("post", f"{ROUTE}/support/train/versions", data).json() for data in (BODY, written_otherwise)]
    assert replies[0]["contentHash"] == replies[1]["contentHash"]
    assert [reply["blankLines"] for reply in replies] == [0, 1]
    codes = [{finding["code"] for finding in reply["findings"]} for reply in replies]
    assert {"blank_lines", "carriage_returns"} <= codes[1] - codes[0]
