"""Bundles: ZIPs of code by name and version, and by hash; packed alike everywhere; nothing kept of a refused one."""

import hashlib
import io
import json
import zipfile

import pytest
from django.test import Client

from optimize_site.kernel.archives import ArchiveRefused
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import TooLarge
from optimize_site.kernel.models import Blob
from registry.errors import BundleUnknown, InvalidReference
from registry.management.commands.bundles import Command as Bundles
from registry.management.commands.registry import Command as Registry
from registry.models import Artifact
from registry.operations.bundles import push_bundle, register_bundle, register_held_bundle
from registry.queries import resolve_version
from tests.unit.test_archives import zipped

pytestmark = pytest.mark.django_db
ROUTE = "/v1/registry/bundles"


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "scoring"
    place.mkdir()
    (place / "reward.py").write_text("def compute_score(*_):\n    return 1.0\n")
    (place / "tables").mkdir()
    (place / "tables" / "schema.json").write_text("{}")
    return place


def send(client, reference, data, **query):
    path = f"{ROUTE}/{reference}/versions?" + "&".join(f"{key}={value}" for key, value in query.items())
    return client.post(path, data, content_type="application/octet-stream")


def test_a_zip_keeps_its_bytes_and_the_same_bytes_are_the_same_version(client):
    data = zipped(("reward.py", b"x = 1"))
    made = send(client, "gsm8k/scoring", data, alias="candidate")
    assert (made.status_code, made.json()["reference"]) == (201, "gsm8k/scoring:v1")
    assert made.json()["hash"] == hashlib.sha256(data).hexdigest()
    assert made.json()["files"] == [{"path": "reward.py", "bytes": 5}]
    assert send(client, "gsm8k/scoring", data).status_code == 200
    assert send(client, "gsm8k/scoring", zipped(("reward.py", b"x = 2"))).json()["reference"] == "gsm8k/scoring:v2"
    sent = client.get(f"{ROUTE}/gsm8k/scoring/versions/candidate/bundle.zip")
    assert b"".join(sent.streaming_content) == data
    assert sent["Content-Length"] == str(len(data))


def test_what_is_refused_leaves_nothing_behind(client, monkeypatch):
    for data in (zipped(("../escape", b"x")), b"not a zip", zipped(("a", b"x"))[:-3]):
        answer = send(client, "gsm8k/scoring", data)
        assert (answer.status_code, answer.json()["code"]) == (422, "archive_refused")
    monkeypatch.setenv("OPTIMIZE_REGISTRY_BUNDLES_MAX_BYTES", "100")
    with pytest.raises(TooLarge, match="longer than 100 bytes"):
        register_bundle("gsm8k/scoring", iter([bytes(60), bytes(60)]), actor=LOCAL)
    assert not Blob.objects.exists() and not Artifact.objects.exists()
    assert not [path for path in (home() / "scratch").iterdir() if path.name.startswith(("blob-", "archive-"))]


@pytest.mark.parametrize("reference", ["../x/y", "..%2fx/y", "x/..%252fy", "NUL%00/x", "a/b%0ac", "x/" + "y" * 300,
                                       "C%3A%5Cx/y", "x/%2e%2e"])
def test_a_name_that_is_a_path_or_holds_control_characters_is_refused_or_unknown(client, reference):
    answer = send(client, reference, zipped(("a", b"x")))
    assert answer.status_code in {400, 404, 405}
    assert not Artifact.objects.exists()


def test_a_folder_is_packed_and_only_sent_where_the_box_lacks_it(folder, capsys, monkeypatch):
    assert Registry().run(["bundles", "register", "gsm8k/scoring", "-f", str(folder), "--alias", "candidate"]) == 0
    assert capsys.readouterr().out == "gsm8k/scoring:v1\n"
    monkeypatch.setattr("optimize_site.kernel.client.Client.send_file", None)
    assert Registry().run(["bundles", "register", "other/scoring", "-f", str(folder), "--description", "a note"]) == 0
    other = resolve_version("bundle", "other/scoring")
    assert (other.digest, other.description) == (resolve_version("bundle", "gsm8k/scoring:candidate").digest, "a note")


def test_bytes_that_no_bundle_holds_must_be_sent():
    with pytest.raises(BundleUnknown):
        register_held_bundle("gsm8k/scoring", "0" * 64, actor=LOCAL)
    with pytest.raises(InvalidReference):
        register_held_bundle("gsm8k/scoring", "nonsense", actor=LOCAL)


def test_cache_files_are_packed_with_a_word_about_them(folder, capsys):
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "reward.pyc").write_bytes(b"cache")
    assert Registry().run(["bundles", "register", "gsm8k/scoring", "-f", str(folder)]) == 0
    assert "__pycache__" in capsys.readouterr().err
    assert Registry().run(["bundles", "get", "gsm8k/scoring:v1", "-o", "json"]) == 0
    assert "__pycache__/reward.pyc" in {item["path"] for item in json.loads(capsys.readouterr().out)["files"]}


def test_every_verb_of_bundles(folder, capsys, tmp_path):
    run = Registry().run
    assert run(["bundles", "register", "gsm8k/scoring", "-f", str(folder)]) == 0
    assert run(["bundles", "list"]) == 0
    assert "gsm8k/scoring:v1" in capsys.readouterr().out
    assert run(["bundles", "versions", "gsm8k/scoring", "--json", "reference"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"reference": "gsm8k/scoring:v1"}]
    assert run(["bundles", "alias", "set", "gsm8k/scoring:serving", "--version", "v1"]) == 0
    assert run(["bundles", "annotate", "gsm8k/scoring", "--description", "exact match"]) == 0
    capsys.readouterr()
    assert run(["bundles", "get", "gsm8k/scoring:serving"]) == 0
    shown = capsys.readouterr().out
    assert "exact match" in shown and "tables/schema.json" in shown
    assert run(["bundles", "download", "gsm8k/scoring", "-f", str(tmp_path / "out.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert archive.namelist() == ["reward.py", "tables/", "tables/schema.json"]
    assert run(["bundles", "alias", "rm", "gsm8k/scoring:serving"]) == 0
    assert run(["bundles", "get", "gsm8k/nothing"]) == 4
    assert run(["bundles", "register", "gsm8k/scoring", "-f", str(tmp_path / "nowhere")]) == 2


def test_downloading_to_standard_output_gives_the_exact_bytes(folder, monkeypatch):
    data = zipped(("a.py", b"1"))
    register_bundle("x/y", [data], actor=LOCAL)

    class Output:
        buffer = io.BytesIO()

    monkeypatch.setattr("sys.stdout", Output)
    assert Registry().run(["bundles", "download", "x/y"]) == 0
    assert Output.buffer.getvalue() == data


def test_pushing_prints_the_hash_and_a_name_moves_to_what_is_pushed(folder, capsys):
    assert Bundles().run(["push", str(folder), "--name", "gsm8k-scoring"]) == 0
    hash_ = capsys.readouterr().out.strip()
    assert resolve_version("bundle", "gsm8k-scoring").content_hash == hash_
    assert resolve_version("bundle", hash_[:12]).content_hash == hash_
    newer = push_bundle("gsm8k-scoring", [zipped(("reward.py", b"x = 2"))], actor=LOCAL).version
    assert resolve_version("bundle", "gsm8k-scoring") == newer
    assert Bundles().run(["push", str(folder), "--name", "gsm8k-scoring"]) == 0
    assert resolve_version("bundle", "gsm8k-scoring").content_hash == hash_
    assert Bundles().run(["get", hash_[:12]]) == 0
    assert "reward.py" in capsys.readouterr().out


def test_a_bundle_pushed_without_a_name_is_found_by_its_hash(capsys, tmp_path):
    (tmp_path / "b.zip").write_bytes(zipped(("reward.py", b"x = 3")))
    assert Bundles().run(["push", str(tmp_path / "b.zip")]) == 0
    hash_ = capsys.readouterr().out.strip()
    assert resolve_version("bundle", hash_).artifact.reference == f"default/{hash_}"


def test_a_pickled_or_nested_archive_inside_is_not_looked_into(client):
    inner = zipped(("../../escape", b"x"))
    assert send(client, "x/y", zipped(("inner.zip", inner))).status_code == 201


def test_the_limits_are_told_and_a_larger_bundle_is_not_sent(client, folder, monkeypatch, capsys):
    limits = client.get("/v1/registry/info").json()["bundles"]
    assert limits == {"maxBytes": 64 << 20, "maxUnpackedBytes": 512 << 20, "maxEntries": 10_000}
    monkeypatch.setenv("OPTIMIZE_REGISTRY_BUNDLES_MAX_BYTES", "200")
    monkeypatch.setattr("optimize_site.kernel.client.Client.send_file", None)
    assert Registry().run(["bundles", "register", "gsm8k/scoring", "-f", str(folder)]) == 3
    assert "this box takes 200" in capsys.readouterr().err


def test_only_bundles_are_found_by_the_hash_of_a_bundle():
    with pytest.raises(ArchiveRefused):
        push_bundle("", [b"x"], actor=LOCAL)
    with pytest.raises(InvalidReference):
        push_bundle("../x", [zipped(("a", b"x"))], actor=LOCAL)
