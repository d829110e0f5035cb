"""Trials: one input, the model's answer and its base model's beside it."""

import json

import pytest
from django.test import Client

from endpoints.operations.trials import advance_trials, cancel_trial, start_trial
from endpoints.work import TrialWork
from gpu_worker.engines.plans import complete
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.errors import Forbidden, InvalidInput
from registry.management.commands.registry import Command
from registry.models import BaseModel
from tests.factories import (
    claim_job,
    make_adapter,
    make_base_model,
    make_dataset,
    make_device,
    make_workload,
    put_weights,
    run_job,
)

pytestmark = pytest.mark.django_db
USER = [{"role": "user", "content": "My card was charged twice."}]


@pytest.fixture
def base():
    make_device()
    return put_weights(make_base_model())


@pytest.fixture
def adapter(base):
    row = {"messages": [{"role": "system", "content": "You route tickets."}, *USER,
                        {"role": "assistant", "content": "{}"}]}
    dataset = make_dataset("triage/train", json.dumps(row).encode() + b"\n")
    return make_adapter(make_workload(), base, dataset=dataset.reference)


def answer(system, text):
    return {"type": "answer", "position": 0, "system": system, "prompt": USER, "expected": None, "answer": text,
            "prompt_tokens": 3, "completion_tokens": 2, "chat_template_sha256": "", "base_model_revision": "rev-1",
            "finish": "stop"}


def test_a_trained_model_answers_beside_its_base_under_the_system_message_it_was_trained_with(adapter):
    trial = start_trial(adapter, USER, actor=LOCAL)
    assert trial.messages[0] == {"role": "system", "content": "You route tickets."}
    attempt = claim_job()
    plan = TrialWork().plan(trial, attempt)
    assert [(system["name"], system["adapter"] is None) for system in plan["systems"]] == [
        ("candidate", False), ("base", True)]
    assert complete(plan, attempt=attempt.pk, subject={"kind": "trial", "id": trial.pk}, threads=1,
                    device={"kind": "cpu", "uuids": []})
    assert plan["rows"] == {"files": [], "inline": [{"messages": trial.messages}]}


def test_its_own_system_message_wins_and_a_base_model_answers_alone(adapter, base):
    told = [{"role": "system", "content": "Be brief."}, *USER]
    assert start_trial(adapter, told, actor=LOCAL).messages == told
    trial = start_trial(base.version, USER, actor=LOCAL)
    assert trial.messages == USER


def test_answers_are_seen_as_they_come(adapter):
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})
    made = client.post("/v1/training/trials", json.dumps({"model": "triage/tiny", "input": "Hello?",
                                                          "instructions": "Be brief."}),
                       content_type="application/json")
    assert made.status_code == 201
    run_job(answer("candidate", "billing"), answer("base", "Hi!"), {"type": "finished", "answers": 2})
    found = client.get(f"/v1/training/trials/{made.json()['trialId'][:8]}").json()
    assert (found["phase"], found["answers"]["candidate"]["answer"], found["answers"]["base"]["answer"]) == (
        "COMPLETED", "billing", "Hi!")
    both = client.post("/v1/training/trials", json.dumps({"model": "triage/tiny", "input": "x", "messages": USER}),
                       content_type="application/json")
    assert both.json()["code"] == "malformed_messages"


@pytest.mark.parametrize("messages", [
    [], [{"role": "assistant", "content": "x"}], [{"role": "robot", "content": "x"}, *USER],
    [*USER, {"role": "system", "content": "x"}, *USER], [{"role": "user", "content": ["x"]}],
    [{"role": "user", "content": "x" * 200_000}], [{"role": "user", "content": "x", "name": "y"}],
])
def test_messages_that_are_none_are_refused(adapter, messages):
    with pytest.raises(InvalidInput) as refused:
        start_trial(adapter, messages, actor=LOCAL)
    assert refused.value.code == "malformed_messages"


def test_it_waits_for_the_base_model_and_can_be_cancelled(adapter):
    BaseModel.objects.update(phase="PENDING")
    trial = start_trial(adapter, USER, actor=LOCAL)
    assert trial.phase == "AWAITING_BASE_MODEL"
    BaseModel.objects.update(phase="READY")
    advance_trials()
    trial.refresh_from_db()
    assert trial.phase == "AWAITING_CAPACITY"
    assert cancel_trial(trial, actor=LOCAL).phase == "CANCELLED"
    with pytest.raises(Forbidden):
        start_trial(adapter, USER, actor=Actor("vic", "viewer"))


def test_a_lost_trial_is_tried_again(adapter):
    trial = start_trial(adapter, USER, actor=LOCAL)
    run_job(outcome="lost")
    trial.refresh_from_db()
    assert trial.phase == "AWAITING_CAPACITY"


def test_the_command_prints_both_answers(adapter, monkeypatch, capsys):
    watch = Command.watch

    def answer_then_watch(self, *arguments, **named):
        run_job(answer("candidate", "billing"), answer("base", "Hi!"), {"type": "finished", "answers": 2})
        return watch(self, *arguments, **named)

    monkeypatch.setattr(Command, "watch", answer_then_watch)
    assert Command().run(["models", "try", "triage/tiny", "--input", "Hello?"]) == 0
    said = capsys.readouterr().out
    assert "billing" in said and "Hi!" in said
