"""Where versions came from, both ways: stated, made exact, stored as rows, shown on every surface."""

import json

import pytest
from django.test import Client

from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from registry.errors import MalformedLineage, UnknownVersion
from registry.lineage import ancestors_of, descendants_of, resolve_lineage
from registry.management.commands.registry import Command as Registry
from registry.model_queries import base_version_of
from registry.models import Parent
from registry.operations.artifacts import NewVersion, register_version
from tests import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def dataset(reference, mark, **lineage):
    objects = [{"path": "examples.jsonl", "sha256": mark * 64, "bytes": 1}]
    return register_version("dataset", reference, NewVersion("chat-jsonl-v1", objects, lineage=lineage),
                            actor=LOCAL)[0]


@pytest.fixture
def family():
    """raw -> clean -> a trained model, which stands on a base model too."""
    raw = make.make_dataset("triage/raw", 3)
    from datasets.operations import register_dataset

    clean = register_dataset("triage/clean", [make.chat_rows(4)], actor=LOCAL,
                             lineage={"parents": [{"kind": "dataset/source", "reference": "triage/raw"}],
                                      "producedBy": {"kind": "script", "id": "clean.py@3f2a"}, "note": "kept"}).version
    base = make.put_weights(make.make_base_model())
    model = make.make_adapter(make.make_workload(), base, dataset=clean.reference, validationDataset="triage/raw:v1")
    return {"raw": raw, "clean": clean, "base": base.version, "model": model}


def shape(kin):
    return [(one.kind, one.reference, one.depth) for one in kin]


def test_a_stated_parent_is_kept_exactly_and_its_producer_beside_it(family):
    clean = family["clean"]
    assert clean.lineage["parents"] == [{"kind": "dataset/source", "reference": "triage/raw:v1",
                                         "versionId": family["raw"].pk}]
    assert (clean.produced_by_kind, clean.produced_by_id) == ("script", "clean.py@3f2a")
    assert clean.lineage["note"] == "kept"
    newer = make.make_dataset("triage/raw", 5)
    assert newer.reference == "triage/raw:v2"
    assert shape(ancestors_of(clean)) == [("dataset/source", "triage/raw:v1", 1)]


def test_lineage_is_read_both_ways_through_every_generation(family):
    assert shape(ancestors_of(family["model"])) == [
        ("dataset/training", "triage/clean:v1", 1), ("dataset/validation", "triage/raw:v1", 1),
        ("model/base", "acme/tiny:v1", 1)]
    assert shape(descendants_of(family["raw"])) == [
        ("dataset/source", "triage/clean:v1", 1), ("dataset/validation", "triage/tiny:v1", 1)]
    assert shape(descendants_of(family["base"])) == [("model/base", "triage/tiny:v1", 1)]
    assert base_version_of(family["model"]) == family["base"]


def test_a_grandchild_is_found_at_its_distance(family):
    assert [(one.reference, one.depth) for one in descendants_of(family["clean"])] == [("triage/tiny:v1", 1)]
    grand = dataset("triage/distilled", "d", parents=[{"kind": "model/teacher", "reference": "triage/tiny"}])
    assert ("model/teacher", "triage/distilled:v1", 2) in shape(descendants_of(family["clean"]))
    assert ("dataset/training", "triage/clean:v1", 2) in shape(ancestors_of(grand))


def test_what_the_box_does_not_keep_is_external_and_what_it_cannot_find_is_refused():
    found = dataset("a/b", "a", parents=[{"kind": "external", "reference": "https://example.org/tickets"}])
    assert shape(ancestors_of(found)) == [("external", "https://example.org/tickets", 1)]
    with pytest.raises(UnknownVersion) as refused:
        dataset("a/c", "c", parents=["a/nothing"])
    assert "lineage.parents[0]" in refused.value.detail and "external" in refused.value.hint
    assert not Parent.objects.filter(child__artifact__name="c").exists()


@pytest.mark.parametrize("stated", [
    [], "x", {"parents": {}}, {"parents": [1]}, {"parents": [{"kind": "dataset/source"}]}, {"producedBy": "me"},
    {"parents": [{"kind": "thing", "reference": "a/b"}]}, {"producedBy": {"kind": "x" * 30, "id": "y"}},
    {"parents": ["a/b"] * 101}, {"parents": [{"kind": "dataset/" + "x" * 50, "reference": "a/b"}]}])
def test_a_malformed_lineage_is_refused_with_an_example(stated):
    with pytest.raises(MalformedLineage) as refused:
        resolve_lineage(stated)
    assert refused.value.code == "lineage_invalid"


def test_the_same_parent_twice_is_once():
    dataset("a/b", "a")
    assert len(dataset("a/c", "c", parents=["a/b", "a/b:v1"]).lineage["parents"]) == 1


def test_documents_and_commands_show_both_ways(client, family, capsys):
    model = client.get("/v1/registry/models/triage/tiny:v1").json()
    assert {(row["kind"], row["reference"]) for row in model["parents"]} >= {
        ("dataset/training", "triage/clean:v1"), ("model/base", "acme/tiny:v1")}
    clean = client.get("/v1/registry/datasets/triage/clean/versions/v1").json()
    assert [row["reference"] for row in clean["parents"]] == ["triage/raw:v1"]
    assert clean["children"] == [{"kind": "dataset/training", "reference": "triage/tiny:v1", "depth": 1,
                                  "artifact": "model", "versionId": family["model"].pk}]
    assert Registry().run(["models", "get", "triage/tiny:v1"]) == 0
    assert "triage/clean:v1 (dataset/training)" in capsys.readouterr().out
    assert Registry().run(["datasets", "get", "triage/clean:v1"]) == 0
    shown = capsys.readouterr().out
    assert "triage/raw:v1 (dataset/source)" in shown and "triage/tiny:v1 (dataset/training)" in shown


def test_register_reads_a_lineage_file(tmp_path, capsys, family):
    (tmp_path / "rows.jsonl").write_bytes(make.chat_rows(6))
    (tmp_path / "lineage.json").write_text(json.dumps({"parents": ["raw"]}))
    words = ["datasets", "register", "triage/more", "-f", str(tmp_path / "rows.jsonl"), "--lineage"]
    assert Registry().run([*words, str(tmp_path / "lineage.json")]) == 0
    assert descendants_of(family["raw"])[-1].reference != ""
    assert "triage/more:v1" in {one.reference for one in descendants_of(family["raw"])}
    (tmp_path / "lineage.json").write_text("[")
    assert Registry().run([*words, str(tmp_path / "lineage.json")]) == 2


def test_versions_are_found_by_what_they_stand_on_and_by_who_made_them(client, family):
    route = "/v1/registry/models/triage/tiny/versions"
    base = family["base"]
    for query, count in ((f"baseModel={base.reference}", 1), ("baseModel=ACME/tiny", 1), ("baseModel=other/tiny", 0),
                         (f"baseModel=acme/tiny@sha256:{base.digest}", 1),
                         (f"producedByKind=RUN&producedById={'a' * 64}", 1),
                         (f"producedByKind=run&producedById={'a' * 64}%2320", 0)):
        assert client.get(f"{route}?{query}").json()["total"] == count, query


def test_versions_from_before_there_were_rows_get_theirs(family):
    """As the migration does it for a box that has models already."""
    from importlib import import_module

    from django.apps import apps

    told = sorted(Parent.objects.filter(child=family["model"]).values_list("kind", "reference", "parent"))
    Parent.objects.all().delete()
    import_module("registry.migrations.0002_parents").fill(apps, None)
    assert sorted(Parent.objects.filter(child=family["model"]).values_list("kind", "reference", "parent")) == told
