"""Archiving namespaces, with every consequence."""


import pytest
from django.test import Client

from datasets.operations import create_dataset, register_dataset
from evaluations.operations.evaluations import Request, start_evaluation
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import Forbidden
from optimize_site.kernel.models import Event, Lease
from registry import queries
from registry.base_model_queries import base_model_state
from registry.errors import NamespaceArchived
from registry.management.commands.registry import Command as Registry
from registry.models import BaseModel
from registry.operations.artifacts import annotate_version, set_alias
from registry.operations.base_models import advance_base_models, deselect_base_model, select_base_model
from registry.operations.bundles import push_bundle, register_bundle
from registry.operations.namespaces import archive_namespace, unarchive_namespace
from registry.queries import resolve_version
from registry.work import BaseModelWork
from registry.workload_queries import get_workload
from runs.errors import RunRefused
from runs.models import Run
from runs.operations import advance_run, check_run, submit_run
from tests import factories as make
from tests.unit.test_archives import zipped
from tests.web import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


@pytest.fixture
def held():
    """A namespace of its own that holds one of each kind."""
    base = make.put_weights(make.make_base_model())
    workload = make.make_workload()
    dataset = make.make_dataset("triage/train")
    model = make.make_adapter(workload, base)
    bundle = register_bundle("triage/scoring", [zipped(("reward.py", b"x = 1"))], actor=LOCAL).version
    return {"dataset": dataset, "model": model, "bundle": bundle, "workload": workload}


def archive(name="triage"):
    return archive_namespace(queries.get_namespace(name), actor=LOCAL)


def names(client, route, key, **query):
    return [row["reference"] if "reference" in row else row["name"] for row in client.get(route, query).json()[key]]


@pytest.mark.requirement("R293")
def test_a_namespace_is_archived_and_brought_back_by_route_and_command(client, held, capsys):
    done = client.post("/v1/registry/namespaces/triage/archive")
    assert (done.status_code, done.json()["isArchived"]) == (200, True)
    assert client.post("/v1/registry/namespaces/triage/unarchive").json()["isArchived"] is False
    assert Registry().run(["namespaces", "archive", "triage"]) == 2
    assert Registry().run(["namespaces", "archive", "triage", "--force"]) == 0
    assert "namespaces unarchive triage" in capsys.readouterr().out
    assert queries.get_namespace("triage").archived_at is not None
    assert Registry().run(["namespaces", "unarchive", "triage"]) == 0
    assert queries.get_namespace("triage").archived_at is None
    assert client.post("/v1/registry/namespaces/nothing/archive").status_code == 404
    types = list(Event.objects.filter(subject_kind="namespace").order_by("id").values_list("type", flat=True))
    assert types == ["namespace.archived", "namespace.unarchived"] * 2


def test_archiving_twice_is_once_and_needs_an_operator(held):
    first = archive()
    assert archive().archived_at == first.archived_at
    with pytest.raises(Forbidden):
        unarchive_namespace(first, actor=Actor("vera", "viewer"))


@pytest.mark.requirement("R294")
@pytest.mark.parametrize("plural", ["datasets", "models", "bundles", "namespaces"])
def test_an_archived_namespace_leaves_the_lists_unless_asked_for(client, held, plural):
    route = f"/v1/registry/{plural}"
    before = names(client, route, plural)
    own = [name for name in before if name.startswith("triage")]
    assert own
    archive()
    assert [name for name in names(client, route, plural) if name.startswith("triage")] == []
    assert names(client, route, plural, archived="true") == before
    marked = [row for row in client.get(route, {"archived": "true"}).json()[plural] if row["isArchived"]]
    assert len(marked) == len(own)


@pytest.mark.requirement("R294", "R191")
@pytest.mark.parametrize("plural", ["datasets", "models", "bundles"])
def test_a_list_of_the_archived_namespace_shows_it_marked(client, held, plural, capsys):
    archive()
    found = client.get(f"/v1/registry/{plural}", {"namespace": "triage"}).json()[plural]
    assert [row["isArchived"] for row in found] == [True]
    assert Registry().run([plural, "list", "--namespace", "triage"]) == 0
    assert f"{found[0]['reference']} (archived)" in capsys.readouterr().out
    assert Registry().run([plural, "list"]) == 0
    assert "triage/" not in capsys.readouterr().out
    assert Registry().run([plural, "list", "--archived"]) == 0
    assert "(archived)" in capsys.readouterr().out
    if plural == "models":
        assert Registry().run(["models", "list", "--project", "triage"]) == 0
        assert "triage/tiny (archived)" in capsys.readouterr().out
        assert client.get("/v1/registry/models", {"project": "triage"}).json()["models"] == found


@pytest.mark.requirement("R294")
def test_getting_an_archived_namespace_and_what_it_holds_shows_it_marked(client, held, capsys):
    archive()
    assert client.get("/v1/registry/namespaces/triage").json()["isArchived"] is True
    for words in (["namespaces", "get", "triage"], ["datasets", "get", "triage/train"],
                  ["datasets", "get", "triage/train:v1"],
                  ["models", "get", "triage/tiny"], ["models", "get", "triage/tiny:v1"],
                  ["bundles", "get", "triage/scoring"], ["bundles", "get", "triage/scoring:v1"],
                  ["namespaces", "list", "--archived"]):
        assert Registry().run(words) == 0
        assert "(archived)" in capsys.readouterr().out, words


@pytest.mark.requirement("R295")
def test_references_into_an_archived_namespace_still_resolve_and_aliases_still_move(held):
    archive()
    dataset = held["dataset"]
    assert resolve_version("dataset", "triage/train") == dataset
    assert resolve_version("model", "triage/tiny:v1") == held["model"]
    set_alias(resolve_version("dataset", "triage/train").artifact, "good", dataset, actor=LOCAL)
    assert resolve_version("dataset", "triage/train:good") == dataset
    assert annotate_version(dataset, description="a note", actor=LOCAL).description == "a note"
    other = make.make_workload("other", dataset="triage/train")
    row = start_evaluation(Request(model="acme/tiny", dataset="triage/train:v1", workload=other.name), actor=LOCAL)
    assert row.evaluation.dataset == dataset
    make.make_device()
    document = make.run_document(workload=other.name, config={"dataset": "triage/train:v1"})
    assert submit_run(document, actor=LOCAL).run.config["dataset"] == dataset.content_hash


@pytest.mark.requirement("R296")
@pytest.mark.parametrize("register", [
    lambda: make.make_dataset("triage/more"), lambda: make.make_dataset("triage/train", 3),
    lambda: register_bundle("triage/scoring", [zipped(("other.py", b"y"))], actor=LOCAL),
    lambda: make.make_adapter(get_workload("triage"), BaseModel.objects.get(), run_id="b" * 64)])
def test_a_new_version_in_an_archived_namespace_is_refused_with_the_command_that_brings_it_back(held, register):
    archive()
    with pytest.raises(NamespaceArchived) as refused:
        register()
    assert "namespace triage is archived" in refused.value.detail
    assert "./optimize registry namespaces unarchive triage" in refused.value.hint
    unarchive_namespace(queries.get_namespace("triage"), actor=LOCAL)
    assert register()


def test_nothing_is_read_that_is_for_an_archived_namespace(client, held):
    archive()

    def never():
        raise AssertionError("the body was read")
        yield b""

    with pytest.raises(NamespaceArchived):
        register_dataset("triage/train", never(), actor=LOCAL)
    with pytest.raises(NamespaceArchived):
        register_bundle("triage/scoring", never(), actor=LOCAL)
    create_dataset([make.chat_rows(2)], actor=LOCAL, name="train")
    archive_namespace(queries.get_namespace("default"), actor=LOCAL)
    for name in ("", "train", "other"):
        with pytest.raises(NamespaceArchived):
            create_dataset(never(), actor=LOCAL, name=name)
        with pytest.raises(NamespaceArchived):
            push_bundle(name, never(), actor=LOCAL)


def test_a_run_whose_namespace_was_archived_meanwhile_registers_once_it_is_back():
    from optimize_site.kernel.work import attempt_folder

    run = make.make_run(phase="AWAITING_CAPACITY")
    make.make_device()
    attempt = make.claim_job()
    make.tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, scenes.snapshot(1, final=True))
    folder = attempt_folder(attempt.pk) / "snapshots" / "step-1"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_bytes(b"weights")
    make.end_job(attempt)
    archive()
    advance_run(run.pk)
    run.refresh_from_db()
    assert (run.phase, "namespaces unarchive triage" in run.wait_reason) == ("RECORDING", True)
    unarchive_namespace(queries.get_namespace("triage"), actor=LOCAL)
    advance_run(run.pk)
    run.refresh_from_db()
    assert (run.phase, run.model.reference) == ("COMPLETED", "triage/tiny:v1")


@pytest.mark.requirement("R302")
def test_a_run_that_would_register_into_an_archived_namespace_is_refused_at_submission_and_in_the_dry_run():
    make.make_run()
    archive()
    with pytest.raises(RunRefused) as refused:
        submit_run(make.run_document(), actor=LOCAL)
    problem = refused.value.problems[0]
    assert (problem.code, problem.path) == ("namespace_archived", "workload")
    assert "namespaces unarchive triage" in problem.hint
    checked = check_run(make.run_document(), actor=LOCAL)
    assert (checked["valid"], checked["problems"][0]["code"]) == (False, "namespace_archived")
    assert Run.objects.count() == 1


# Base models ---------------------------------------------------------------------------------------------------------


def base_model_of_its_own():
    """A base model that is not prepared here yet, and whose namespace is its own."""
    make.add_to_catalog("base_models", '["solo/tiny"]\nsource = { kind = "folder", path = "/models/tiny" }\n'
                        'engines = { trl = ["sft"] }\n')
    make.make_device()
    queries.Namespace.objects.create(name="solo")
    return lambda move: move(queries.get_namespace("solo"), actor=LOCAL)


def prepared(attempt):
    """What the job of a preparation leaves and says."""
    folder = home() / BaseModelWork().plan(BaseModel.objects.get(repository="solo/tiny"), attempt)["out"]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    make.tell_job(attempt, {"type": "finished", "folder": "x", "revision": "c1", "chat_template_sha256": "t" * 64})


@pytest.mark.requirement("R296")
def test_a_base_model_of_an_archived_namespace_is_not_selected_before_it_is_back(client, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    do = base_model_of_its_own()
    do(archive_namespace)
    answer = client.post("/v1/training/base-models/solo/tiny/select")
    assert (answer.status_code, answer.json()["code"]) == (409, "namespace_archived")
    assert "namespaces unarchive solo" in answer.json()["hint"]
    do(unarchive_namespace)
    assert client.post("/v1/training/base-models/solo/tiny/select").status_code == 202


@pytest.mark.requirement("R296")
@pytest.mark.parametrize("is_deselected", [False, True])
def test_a_base_model_whose_namespace_was_archived_meanwhile_frees_its_slot_and_is_ready_once_it_is_back(
        tmp_path, monkeypatch, is_deselected):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    do = base_model_of_its_own()
    select_base_model("solo/tiny", actor=LOCAL)
    attempt = make.claim_job()
    prepared(attempt)
    do(archive_namespace)
    make.end_job(attempt)
    state = base_model_state("solo/tiny")
    assert state.is_refused and "namespaces unarchive solo" in state.failure
    assert not Lease.objects.filter(released_at=None).exists()
    with pytest.raises(NamespaceArchived):
        select_base_model("solo/tiny", actor=LOCAL)
    if is_deselected:
        deselect_base_model("solo/tiny", actor=LOCAL)
    do(unarchive_namespace)
    state = select_base_model("solo/tiny", actor=LOCAL)
    assert (state.is_ready, state.version.reference, state.failure) == (True, "solo/tiny:v1", "")


@pytest.mark.requirement("R296")
def test_weights_that_are_gone_are_fetched_again_though_the_namespace_is_archived(tmp_path, monkeypatch):
    """Their version is there already, so that nothing is registered."""
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    do = base_model_of_its_own()
    for _ in range(2):
        select_base_model("solo/tiny", actor=LOCAL)
        attempt = make.claim_job()
        prepared(attempt)
        make.end_job(attempt)
        state = base_model_state("solo/tiny")
        assert (state.is_ready, state.version.number) == (True, 1)
        (state.folder / "config.json").unlink()
        do(archive_namespace)
        advance_base_models()
