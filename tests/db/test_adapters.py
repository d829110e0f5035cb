"""Adapters from elsewhere: registered with their files, over a registered base; nothing kept of a refused one."""

import io
import json

import pytest
from django.test import Client

from optimize_site.kernel.archives import pack_folder
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.models import Blob
from registry.adapter_files import base_shapes
from registry.errors import AdapterIncomplete, AdapterRefused, MalformedDescriptor, MalformedLineage, WorkloadArchived
from registry.management.commands.registry import Command as Registry
from registry.model_queries import base_version_of, get_model, serving_of
from registry.models import Version
from registry.operations.adapters import register_adapter
from registry.operations.workloads import archive_workload
from tests import factories as make
from tests.adapters import adapter_config, adapter_folder, lora_tensors, safetensors
from tests.unit.test_archives import zipped

pytestmark = pytest.mark.django_db
DESCRIPTOR = {"servingModel": {"variant": "ADAPTER", "baseModel": "acme/tiny", "adapterRank": 2}}


@pytest.fixture
def base():
    found = make.put_weights(make.make_base_model())
    weights = {"model.layers.0.self_attn.q_proj.weight": ((4, 6), [0.0] * 24)}
    (home() / found.folder / "model.safetensors").write_bytes(safetensors(weights))
    yield found
    (home() / found.folder / "model.safetensors").unlink()


@pytest.fixture
def files():
    return {"adapter_config.json": adapter_config(), "adapter_model.safetensors": safetensors(lora_tensors())}


def register(files, reference="mine/adapter", descriptor=DESCRIPTOR, **more):
    return register_adapter(reference, descriptor, [zipped(*files.items())], actor=LOCAL, **more)


def test_an_adapter_becomes_a_version_over_its_base_with_its_two_files(base, files):
    version = register(files | {"README.md": b"# mine"}, alias="first")
    serving = serving_of(version)
    assert (version.reference, serving.variant, serving.base_model, serving.rank) == (
        "mine/adapter:v1", "ADAPTER", "acme/tiny", 2)
    assert [item["path"] for item in version.objects_listing] == ["adapter_config.json", "adapter_model.safetensors"]
    assert base_version_of(version) == base.version
    assert version.lineage["baseRevision"] == "rev-1"
    assert get_model("mine/adapter:first") == version
    assert register(files) == version
    assert Version.objects.filter(artifact__name="adapter").count() == 1


def test_the_files_may_lie_in_one_folder_and_the_base_be_named_by_its_version(base, files):
    moved = {f"checkpoint/{name}": data for name, data in files.items()}
    stated = {"servingModel": {"variant": "ADAPTER", "baseModel": "acme/tiny:v1"},
              "lineage": {"parents": [{"kind": "model/base", "reference": "acme/tiny:v1"}],
                          "producedBy": {"kind": "notebook", "id": "colab-7"}}}
    version = register(moved, descriptor=stated)
    assert (version.produced_by_kind, version.produced_by_id) == ("notebook", "colab-7")
    assert [parent["kind"] for parent in version.lineage["parents"]] == ["model/base"]


@pytest.mark.parametrize(("change", "error", "match"), [
    (lambda files: files | {"adapter_model.bin": b"x"}, AdapterRefused, "may be a pickle"),
    (lambda files: files | {"adapter_model.safetensors": b"\x80\x02" + bytes(40)}, AdapterRefused, "pickle by another"),
    (lambda files: {"adapter_config.json": files["adapter_config.json"]}, AdapterIncomplete, "beside it"),
    (lambda files: files | {"b/adapter_config.json": b"{}"}, AdapterIncomplete, "is one adapter_config.json"),
    (lambda files: files | {"adapter_config.json": adapter_config(r=4)}, AdapterRefused, "adapterRank is 2"),
    (lambda files: files | {"adapter_config.json": adapter_config(base_model_name_or_path="other/base")},
     AdapterRefused, "made over other/base"),
    (lambda files: files | {"adapter_config.json": adapter_config(revision="rev-9")}, AdapterRefused, "commit rev-9"),
    (lambda files: files | {"adapter_model.safetensors": safetensors(lora_tensors(inputs=7))}, AdapterRefused,
     "in the base model"),
    (lambda files: files | {"../x": b""}, OperationError, "leaves the archive")])
def test_what_is_refused_leaves_nothing_behind(base, files, change, error, match):
    blobs = set(Blob.objects.values_list("pk", flat=True))
    with pytest.raises(error, match=match):
        register(change(files))
    assert set(Blob.objects.values_list("pk", flat=True)) == blobs
    assert not Version.objects.filter(artifact__name="adapter").exists()


@pytest.mark.parametrize(("descriptor", "error"), [
    ({"servingModel": {"variant": "ADAPTER", "baseModel": "acme/tiny", "revision": "rev-1"}}, MalformedDescriptor),
    ({"servingModel": {"variant": "WEIGHTS", "baseModel": "acme/tiny"}}, MalformedDescriptor),
    ({"servingModel": {"variant": "BASE", "baseModel": "acme/tiny"}}, MalformedDescriptor),
    ({"servingModel": {"variant": "ADAPTER", "baseModel": "acme/tiny", "adapterRank": True}}, MalformedDescriptor),
    ({"servingModel": {"variant": "ADAPTER", "baseModel": "nobody/knows"}}, OperationError),
    (DESCRIPTOR | {"lineage": {"parents": [{"kind": "model/base", "reference": "second/base"}]}}, MalformedLineage),
    ([], MalformedDescriptor), ("x", MalformedDescriptor)])
def test_a_descriptor_that_says_another_thing_is_refused(base, files, descriptor, error):
    from registry.operations.models import register_descriptor

    register_descriptor("second/base", {"servingModel": {"variant": "BASE", "baseModel": "acme/tiny",
                                                         "revision": "other"}}, actor=LOCAL)
    with pytest.raises(error):
        register(files, descriptor=descriptor)


def test_an_adapter_stands_on_a_base_model_and_not_on_another_adapter(base, files):
    register(files)
    with pytest.raises(MalformedDescriptor, match="which is trained itself"):
        register(files, "mine/second", {"servingModel": {"variant": "ADAPTER", "baseModel": "mine/adapter:v1"}})


def test_it_is_a_new_candidate_so_an_archived_workload_takes_none(base, files):
    archive_workload(make.make_workload(), actor=LOCAL)
    with pytest.raises(WorkloadArchived):
        register(files, "triage/imported")


def test_without_the_base_models_weights_its_shapes_are_not_compared(base, files, tmp_path):
    assert base_shapes(tmp_path) is None
    (home() / base.folder / "model.safetensors").rename(tmp_path / "model.safetensors")
    assert base_shapes(tmp_path) == {"model.layers.0.self_attn.q_proj": (4, 6)}
    assert register(files | {"adapter_model.safetensors": safetensors(lora_tensors(inputs=7))}).number == 1
    (tmp_path / "model.safetensors").rename(home() / base.folder / "model.safetensors")


def test_route_and_command_register_the_same_version(base, files, tmp_path, capsys):
    folder = adapter_folder(tmp_path / "adapter")
    (tmp_path / "model.yaml").write_text("servingModel: {variant: ADAPTER, baseModel: acme/tiny}\n")
    words = ["models", "register", "mine/adapter", "-f", str(tmp_path / "model.yaml"), "--adapter", str(folder)]
    assert Registry().run(words) == 0
    assert capsys.readouterr().out == "mine/adapter:v1\n"
    sink = io.BytesIO()
    pack_folder(folder, sink)
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})
    stated = json.dumps({"servingModel": {"variant": "ADAPTER", "baseModel": "acme/tiny"}})
    answer = client.post(f"/v1/registry/models/mine/adapter/versions?descriptor={stated}&alias=serving",
                         sink.getvalue(), content_type="application/octet-stream")
    assert (answer.status_code, answer.json()["reference"]) == (201, "mine/adapter:v1")
    assert client.get("/v1/registry/models/mine/adapter/aliases/serving").json()["version"] == "v1"
    assert Registry().run(["models", "get", "mine/adapter:v1"]) == 0
    assert "adapter over acme/tiny, rank 2" in capsys.readouterr().out
    assert Registry().run(words[:-2]) == 3
    assert "--adapter" in capsys.readouterr().err
