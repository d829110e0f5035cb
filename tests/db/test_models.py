"""Registered models: adapters from runs, base models from descriptors, references, aliases, card and ZIP."""

import hashlib
import io
import json
import zipfile

import pytest
from django.test import Client

from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.blobs import open_blob
from optimize_site.kernel.errors import NotFound, Refused
from registry.management.commands.registry import Command as Registry
from registry.model_queries import base_version_of, find_model, get_model, serving_of, workload_of
from registry.operations.models import register_descriptor
from tests.factories import make_adapter, make_base_model, make_workload, put_weights

pytestmark = pytest.mark.django_db
ROUTE = "/v1/registry/models"


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


@pytest.fixture
def base():
    return put_weights(make_base_model())


@pytest.fixture
def adapter(base):
    return make_adapter(make_workload(), base, dataset="triage/train:v1", datasetHash="d" * 64,
                        chatTemplateSha256="t" * 64)


@pytest.mark.requirement("R018", "R187", "R188")
def test_a_run_registers_its_adapter_under_the_workload_with_lineage(adapter, base):
    assert adapter.reference == "triage/tiny:v1"
    assert serving_of(adapter).variant == "ADAPTER" and serving_of(adapter).rank == 8
    assert adapter.descriptor["servingModel"]["targetModules"] == ["k_proj", "q_proj"]
    assert (adapter.produced_by_kind, adapter.produced_by_id) == ("run", "a" * 64)
    assert adapter.lineage == {
        "run": "a" * 64, "step": 10, "configHash": "c" * 64, "dataset": "triage/train:v1", "datasetHash": "d" * 64,
        "chatTemplateSha256": "t" * 64, "baseRevision": "rev-1", "workload": workload_of(adapter).pk,
        "parents": [{"kind": "model/base", "reference": "acme/tiny:v1", "versionId": base.version.pk}]}
    assert [entry["path"] for entry in adapter.objects_listing] == ["adapter_config.json", "adapter_model.safetensors"]
    with open_blob(hashlib.sha256(b"weights").hexdigest()) as file:
        assert file.read() == b"weights"
    assert base_version_of(adapter) == base.version


def test_registering_the_same_run_again_gives_the_same_model_and_another_run_the_next(adapter, base):
    workload = workload_of(adapter)
    again = make_adapter(workload, base, dataset="triage/train:v1", datasetHash="d" * 64, chatTemplateSha256="t" * 64)
    assert again.pk == adapter.pk
    assert make_adapter(workload, base, run_id="b" * 64).reference == "triage/tiny:v2"


def test_an_adapter_without_its_weights_is_refused(base, tmp_path):
    from optimize_site.kernel.auth import SYSTEM
    from registry.operations.models import register_run_model

    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(Refused) as refused:
        register_run_model(workload=make_workload(), base_model="acme/tiny", base_revision="r", base_version=None,
                           name=None, adapter_folder=tmp_path, rank=8, target_modules=[], lineage={}, run_id="a" * 64,
                           step=1, actor=SYSTEM)
    assert refused.value.code == "adapter_incomplete"


def test_a_model_is_found_by_every_name_it_has(adapter):
    for name in ("triage/tiny", "Triage/Tiny:v1", "triage/tiny:latest", f"triage/tiny@sha256:{adapter.digest}",
                 adapter.pk, adapter.pk[:12]):
        assert get_model(name).pk == adapter.pk
    assert find_model("tiny", "triage").pk == adapter.pk
    assert find_model("triage/tiny:v2") is None
    with pytest.raises(NotFound):
        get_model("triage/none")


def test_a_base_model_registers_from_a_descriptor_pinned_to_what_is_prepared(base):
    descriptor = {"servingModel": {"variant": "BASE", "baseModel": "acme/tiny"}}
    version = register_descriptor("acme/tiny", descriptor, actor=LOCAL)
    assert version.pk == base.version.pk
    named = register_descriptor("mine/base", descriptor, alias="baseline", actor=LOCAL)
    assert get_model("mine/base:baseline") == named


@pytest.mark.parametrize("descriptor", [
    {}, {"servingModel": "x"}, {"servingModel": {"variant": "ADAPTER", "baseModel": "acme/tiny"}},
    {"servingModel": {"variant": "BASE"}}, {"servingModel": {"variant": "BASE", "baseModel": "acme/tiny", "x": 1}},
    {"servingModel": {"variant": "BASE", "baseModel": "acme/tiny"}, "more": 1},
])
def test_other_descriptors_are_refused_with_an_example(base, descriptor):
    with pytest.raises(Refused) as refused:
        register_descriptor("acme/x", descriptor, actor=LOCAL)
    assert refused.value.code == "malformed_descriptor" and refused.value.hint


def test_an_unknown_commit_is_refused_rather_than_invented():
    descriptor = {"servingModel": {"variant": "BASE", "baseModel": "Qwen/Qwen3-0.6B"}}
    with pytest.raises(Refused) as refused:
        register_descriptor("qwen/qwen3-0.6b", descriptor, actor=LOCAL)
    assert "base-models select Qwen/Qwen3-0.6B" in refused.value.hint
    descriptor["servingModel"]["revision"] = "abc"
    assert register_descriptor("qwen/qwen3-0.6b", descriptor, actor=LOCAL).lineage["baseRevision"] == "abc"


def test_the_card_says_where_the_model_came_from(client, adapter):
    card = client.get(f"{ROUTE}/triage/tiny:v1/card").content.decode()
    for fact in ("# triage/tiny:v1", "acme/tiny", "rev-1", "a" * 64, "c" * 64, "d" * 64, "triage/train:v1"):
        assert fact in card


def test_a_note_cannot_put_markup_into_the_card(client, adapter):
    client.post(f"{ROUTE}/triage/tiny:v1/annotate", json.dumps({"description": "<script>x|y"}),
                content_type="application/json")
    card = client.get(f"{ROUTE}/triage/tiny:v1/card").content.decode()
    assert "<script>" not in card and "&lt;script>" in card


@pytest.mark.requirement("R187")
def test_the_adapter_downloads_with_its_card(client, adapter):
    answer = client.get(f"{ROUTE}/{adapter.pk}/adapter.zip")
    assert "tiny-v1.zip" in answer["Content-Disposition"]
    archive = zipfile.ZipFile(io.BytesIO(answer.getvalue()))
    assert archive.testzip() is None
    assert sorted(archive.namelist()) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    assert archive.read("adapter_model.safetensors") == b"weights"
    assert client.get(f"{ROUTE}/acme/tiny/adapter.zip").json()["code"] == "no_adapter"


def test_the_routes_show_names_versions_and_lineage(client, adapter, base):
    assert {row["latest"] for row in client.get(ROUTE).json()["models"]} == {"triage/tiny:v1", "acme/tiny:v1"}
    for word in ("namespace", "project"):
        assert [row["latest"] for row in client.get(f"{ROUTE}?{word}=triage").json()["models"]] == ["triage/tiny:v1"]
    assert client.get(f"{ROUTE}/triage/tiny").json()["versions"][0]["modelId"] == adapter.pk
    found = client.get(f"{ROUTE}/triage/tiny:v1").json()
    assert found["servingModel"]["ref"] == f"adapters/{'a' * 64}"
    assert (found["digest"], found["workload"]) == (f"sha256:{adapter.digest}", "triage")
    assert client.get(f"{ROUTE}/{adapter.pk[:10]}").json()["reference"] == "triage/tiny:v1"
    for query, count in (("baseModel=acme/tiny", 1), ("baseModel=acme/tiny:v1", 1), ("baseModel=other/x", 0),
                         (f"producedByKind=run&producedById={'a' * 64}", 1)):
        assert client.get(f"{ROUTE}/triage/tiny/versions?{query}").json()["total"] == count
    assert client.get(f"{ROUTE}/triage/tiny/versions?producedByKind=run").json()["code"] == "filters_conflict"
    assert client.get(f"{ROUTE}/triage/none").status_code == 404


def test_aliases_move_and_keep_their_history(client, adapter, base):
    make_adapter(workload_of(adapter), base, run_id="b" * 64)

    def point(version):
        return client.put(f"{ROUTE}/triage/tiny/aliases/serving", json.dumps({"version": version}),
                          content_type="application/json")

    assert point("v1").json()["version"] == "v1"
    assert [move["version"] for move in point("v2").json()["history"]] == ["v1", "v2"]
    assert point("v9").status_code == 404
    assert client.get(f"{ROUTE}/triage/tiny:serving").json()["version"] == 2
    assert client.get(f"{ROUTE}/triage/tiny/aliases/latest").json()["version"] == "v2"
    assert client.delete(f"{ROUTE}/triage/tiny/aliases/serving").status_code == 204
    assert client.get(f"{ROUTE}/triage/tiny/aliases/serving").status_code == 404


def test_the_command_shows_models(adapter, capsys, tmp_path):
    run = Registry().run
    assert run(["models", "list", "--namespace", "triage"]) == 0
    assert "triage/tiny:v1" in capsys.readouterr().out
    assert run(["models", "versions", "triage/tiny", "--json", "reference"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"reference": "triage/tiny:v1"}]
    assert run(["models", "get", "triage/tiny:v1"]) == 0
    assert "adapter over acme/tiny, rank 8" in capsys.readouterr().out
    assert run(["models", "get", "triage/tiny"]) == 0
    assert run(["models", "alias", "set", "triage/tiny:serving", "--version", "v1"]) == 0
    assert run(["models", "alias", "get", "triage/tiny:serving"]) == 0
    assert run(["models", "alias", "set", "nonsense", "--version", "v1"]) == 2
    assert run(["models", "annotate", "triage/tiny", "--description", "first"]) == 0
    assert run(["models", "download", "triage/tiny", "-f", str(tmp_path / "a.zip")]) == 0
    assert zipfile.is_zipfile(tmp_path / "a.zip")
    assert run(["models", "alias", "rm", "triage/tiny:serving"]) == 0
    (tmp_path / "d.yaml").write_text("servingModel: {variant: BASE, baseModel: acme/tiny}\n")
    assert run(["models", "register", "mine/base", "-f", str(tmp_path / "d.yaml")]) == 0
    assert "mine/base:v1" in capsys.readouterr().out
