"""Names that are paths, cannot be seen, or are reserved: refused wherever a name is taken, and never used as a path."""

import json

import pytest
from django.test import Client

from optimize_site.kernel.auth import LOCAL_SECRET
from optimize_site.kernel.conf import home
from registry.management.commands.bundles import Command as Bundles
from registry.management.commands.registry import Command as Registry
from registry.management.commands.workloads import Command as Workloads
from registry.models import Alias, Artifact, Namespace, Workload
from tests import factories as make

pytestmark = pytest.mark.django_db
ODD = ["../x", "..", ".", "/etc/x", "..\\x", "C:\\x", "\\\\host\\x", "a\nb", "a\x1fb", "\u202eab", "x" * 300, "é",
       "a b", "-a", "a-", "%2e%2e", "..%2fx", "..%252fx"]
ENCODED = ["..%2fx", "..%252fx", "%2e%2e", "%2fetc%2fx", "..%5cx", "C%3a%5cx", "a%0ab", "%e2%80%aeab", "x" * 300,
           "a%20b"]


@pytest.fixture
def client():
    make.make_dataset("triage/train", 2)
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


@pytest.fixture(autouse=True)
def nothing_is_made_outside(tmp_path):
    before = {path.name for path in home().iterdir()} if home().exists() else set()
    yield
    assert {path.name for path in home().iterdir()} - before <= {"blobs", "scratch", "catalogs", "logs", "row-index"}


@pytest.mark.parametrize("name", ODD)
def test_commands_refuse_an_odd_name_in_a_sentence(name, tmp_path, capsys):
    (tmp_path / "rows.jsonl").write_bytes(make.chat_rows(1))
    (tmp_path / "reward.py").write_text("x")
    for command, words in ((Registry, ["datasets", "register", f"{name}/x", "-f", str(tmp_path / "rows.jsonl")]),
                           (Registry, ["bundles", "register", f"x/{name}", "-f", str(tmp_path)]),
                           (Bundles, ["push", str(tmp_path), f"--name={name}"]),
                           (Workloads, ["create", "--", name])):
        status = command().run(words)
        said = capsys.readouterr()
        assert status in {2, 3, 4}, (words, said.err)
        assert said.err.strip() and "Traceback" not in said.err
    assert not Artifact.objects.exists() and not Workload.objects.exists()


@pytest.mark.parametrize("path", [
    "/v1/registry/{}/x", "/v1/registry/namespaces/{}", "/v1/registry/datasets/{}/x", "/v1/registry/datasets/triage/{}",
    "/v1/registry/datasets/triage/train/versions/{}", "/v1/registry/datasets/triage/train/versions/v1/objects/{}",
    "/v1/registry/datasets/triage/train/aliases/{}", "/v1/registry/models/{}", "/v1/registry/models/{}/card",
    "/v1/registry/models/triage/{}/adapter.zip", "/v1/registry/bundles/triage/{}/versions/v1/bundle.zip",
    "/v1/bundles/{}", "/v1/trained-models/{}", "/v1/training/workloads/{}", "/bundles/triage/{}", "/namespaces/{}",
    "/models/{}", "/datasets/triage/{}"])
def test_reading_an_odd_name_finds_nothing(client, path):
    for name in ENCODED:
        answer = client.get(path.format(name))
        assert answer.status_code in {302, 400, 403, 404, 422}, (name, answer.status_code)
        assert b"root:" not in answer.content and b"Traceback" not in answer.content


@pytest.mark.parametrize("alias", ["latest", "LATEST", "v1", "V2", "v01", "", "..", "a/b", "x" * 65, "a\u0000b"])
def test_reserved_and_odd_aliases_are_refused_for_every_kind(client, alias):
    from urllib.parse import quote

    for kind in ("datasets", "models", "bundles"):
        answer = client.put(f"/v1/registry/{kind}/triage/train/aliases/{quote(alias, safe='')}",
                            json.dumps({"version": "v1"}), content_type="application/json")
        assert answer.status_code in {400, 404, 405, 422}
    assert not Alias.objects.exists()


def test_a_name_in_capitals_is_the_same_name(client):
    assert make.make_dataset("TRIAGE/Train", 3).reference == "triage/train:v2"
    assert Namespace.objects.count() == 1
