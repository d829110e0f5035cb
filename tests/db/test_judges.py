"""Judges: what they are told, where they stand, and that they are given back when nobody wants them any more."""

import json

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from endpoints.errors import InstructionsRequired, NoRoomForJudges
from endpoints.instructions import BUILT_IN_TEXT
from endpoints.management.commands.judges import Command
from endpoints.models import Judge
from endpoints.operations.judges import JudgeKeeper, advance_judges, socket_of
from endpoints.queries import get_judge
from endpoints.render import judge_document, state_of
from endpoints.work import JudgeWork
from gpu_worker.engines.plans import complete
from optimize_site.kernel.auth import LOCAL_SECRET
from optimize_site.kernel.box import capacity
from optimize_site.kernel.graders import InstructionsTooLong, available_grader
from optimize_site.kernel.judges import HOLDERS
from optimize_site.kernel.management.commands import capacity as capacity_command
from optimize_site.kernel.models import Device
from registry.models import BaseModel
from tests.factories import (
    claim_job,
    end_job,
    make_adapter,
    make_base_model,
    make_dataset,
    make_device,
    make_workload,
    put_weights,
    tell_job,
)

pytestmark = pytest.mark.django_db
KEEPER = JudgeKeeper()
STARTED, JUDGING = {"type": "started", "pid": 1, "versions": {}}, {"type": "stage", "name": "judging", "done": 0}


def row(system, answer="{}"):
    told = [{"role": "system", "content": system}] if system else []
    return json.dumps({"messages": [*told, {"role": "user", "content": "x"},
                                    {"role": "assistant", "content": answer}]}).encode() + b"\n"


@pytest.fixture
def base():
    make_device()
    return put_weights(make_base_model())


@pytest.fixture
def judge(base):
    """A model trained to judge, under a system message of its own."""
    dataset = make_dataset("judges/train", row("You judge tickets. Say {\"score\": S}."))
    return make_adapter(make_workload("judges"), base, dataset=dataset.reference)


@pytest.fixture
def wanted(monkeypatch):
    """The holders that want their judges."""
    found = {"r1", "r2"}
    monkeypatch.setitem(HOLDERS, "run", lambda pk: pk in found)
    return found


def appoint(model, **stated):
    return KEEPER.appoint(model.reference, **({"instructions": "", "dataset_id": "", "namespace": ""} | stated))


def hold(model, holder="r1", beside="cpu", devices=1):
    KEEPER.hold("run", holder, [model.pk], beside=beside, devices=devices)
    advance_judges()
    return Judge.objects.get(holder_id=holder, model=model, ended_at=None)


def test_a_trained_judge_is_told_what_it_was_trained_with_unless_something_is_stated(judge):
    found = appoint(judge)
    assert (found.instructions, found.source) == ('You judge tickets. Say {"score": S}.', "training")
    assert appoint(judge, instructions=" Be strict. ").instructions == "Be strict."
    assert appoint(judge, instructions="Be strict.").source == "stated"
    with pytest.raises(InstructionsTooLong):
        appoint(judge, instructions="x" * 8001)


def test_a_trained_judge_without_a_system_message_needs_instructions(base):
    bare = make_dataset("judges/bare", row(""))
    untold = make_adapter(make_workload("judges"), base, dataset=bare.reference)
    with pytest.raises(InstructionsRequired, match=r"judges/bare:v1.*no system message"):
        appoint(untold)
    with pytest.raises(InstructionsRequired, match="nothing is known"):
        appoint(make_adapter(make_workload("others"), base))


def test_another_judge_is_told_the_rows_own_task_and_how_to_grade(base):
    told, bare = make_dataset("triage/told", row("You route tickets.")), make_dataset("triage/bare", row(""))
    found = appoint(base.version, dataset_id=told.pk)
    assert found.source == "dataset"
    assert "You route tickets." in found.instructions
    assert found.instructions.endswith(BUILT_IN_TEXT)
    assert appoint(base.version, dataset_id=bare.pk).document == {
        "modelId": base.version.pk, "model": base.version.reference, "baseModel": base.repository,
        "instructions": BUILT_IN_TEXT, "instructionsSource": "built-in"}


def test_a_model_grader_is_kept_by_the_version_it_names_now(judge):
    assert available_grader(f"model:{judge.pk}") == f"model:{judge.reference}"
    assert available_grader("model:tiny", namespace="judges") == "model:judges/tiny:v1"


def test_a_judge_answers_at_one_socket_and_is_given_back_when_nobody_wants_it(judge, wanted):
    held = hold(judge)
    attempt = claim_job()
    plan = JudgeWork().plan(held, attempt)
    assert plan["adapter"] is not None
    assert plan["socket"] == str(socket_of(held))
    assert plan["max_prompt_tokens"] == 4096 - plan["max_new_tokens"]
    assert complete(plan, attempt=attempt.pk, subject={"kind": "judge", "id": held.pk}, threads=1,
                    device={"kind": "cpu", "uuids": []})
    tell_job(attempt, STARTED)
    assert [one.state for one in KEEPER.held("run", "r1")] == ["starting"]
    assert KEEPER.not_ready("run") == ["r1"]
    tell_job(attempt, JUDGING)
    held.refresh_from_db()
    assert (held.phase, JudgeWork().ask(held), KEEPER.not_ready("run")) == ("READY", "", [])
    wanted.clear()
    assert JudgeWork().ask(held) == "stop"
    end_job(attempt, "stopped")
    held.refresh_from_db()
    assert held.phase == "RELEASED"
    assert claim_job() is None


def test_a_judge_that_is_lost_comes_again_and_one_that_fails_says_why(judge, wanted):
    held = hold(judge)
    end_job(claim_job(), "lost")
    held.refresh_from_db()
    assert held.phase == "AWAITING_CAPACITY"
    attempt = claim_job()
    tell_job(attempt, STARTED, {"type": "failure", "code": "base_model_missing", "reason": "It is gone.",
                                "hint": "Select it."})
    end_job(attempt, "failed")
    (found,) = KEEPER.held("run", "r1")
    assert (found.state, found.code, found.reason) == ("failed", "base_model_missing", "It is gone.")
    again = hold(judge)
    assert again.pk != held.pk


def test_a_judge_that_still_waits_is_released_without_a_device(judge, wanted):
    held = hold(judge)
    assert "waits for a free slot of cpu" in KEEPER.held("run", "r1")[0].reason
    wanted.clear()
    advance_judges()
    held.refresh_from_db()
    assert held.phase == "RELEASED"


def test_asking_twice_for_a_judge_holds_one(judge, wanted):
    assert hold(judge).pk == hold(judge).pk


def test_a_judge_waits_for_its_base_model_and_fails_with_it(judge, wanted):
    BaseModel.objects.update(phase="PENDING")
    held = hold(judge)
    assert held.phase == "AWAITING_BASE_MODEL"
    BaseModel.objects.update(phase="DESELECTED")
    advance_judges()
    assert KEEPER.held("run", "r1")[0].code == "base_model_missing"


@pytest.mark.requirement("R185")
def test_two_runs_judges_never_take_the_slots_that_both_runs_wait_for(judge, wanted):
    first, second = hold(judge, "r1"), hold(judge, "r2")
    attempt = claim_job(slot=0)
    assert attempt.holder_id == first.pk
    assert claim_job(slot=1) is None
    wanted.discard("r1")
    end_job(attempt, "stopped")
    assert claim_job(slot=0).holder_id == second.pk


def test_a_holder_gets_all_its_judges_or_none(judge, base, wanted):
    Device.objects.update(slots=3)
    other = base.version
    for holder in ("r1", "r2"):
        KEEPER.hold("run", holder, [judge.pk, other.pk], beside="cpu", devices=1)
    advance_judges()
    claimed = [claim_job(slot=slot) for slot in range(3)]
    holders = [Judge.objects.get(pk=attempt.holder_id).holder_id for attempt in claimed if attempt]
    assert holders == ["r1", "r1"]


def test_a_box_without_room_refuses_and_another_profile_is_used_where_there_is_one(base):
    Device.objects.update(slots=1)
    with pytest.raises(NoRoomForJudges, match=r"1 judge beside the 1 cpu device of the run.*1 of cpu"):
        KEEPER.check_room(1, beside="cpu", devices=1)
    assert KEEPER.check_room(1) == "cpu"
    make_device("GPU-1", kind="gpu", profile="h200", slots=1)
    assert KEEPER.check_room(1, beside="cpu", devices=1) == "h200"
    assert KEEPER.check_room(1, beside="h200", devices=1) == "cpu"


def test_judges_are_listed_by_route_and_by_command(judge, wanted, capsys):
    held = hold(judge)
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})
    (row,) = client.get("/v1/training/judges?phase=open").json()["judges"]
    assert (row["model"], row["phase"], row["heldFor"]["workId"]) == (judge.reference, "AWAITING_CAPACITY", "r1")
    assert client.get("/v1/training/judges?phase=asleep").json()["code"] == "unknown_phase"
    assert [client.get(f"/v1/training/judges?heldFor={holder}").json()["total"] for holder in ("r1", "r2")] == [1, 0]
    for words in (["list"], ["list", "--for", "r1"], ["get", held.pk[:10]]):
        assert Command().run(words) == 0
        assert "run r1" in capsys.readouterr().out


def test_a_judge_says_its_state_its_memory_and_that_its_job_was_lost(judge, wanted, capsys):
    held = hold(judge)
    states = [state_of(get_judge(held.pk))]
    end_job(claim_job(), "lost")
    attempt = claim_job()
    states.append(state_of(get_judge(held.pk)))
    tell_job(attempt, STARTED, JUDGING | {"done": 2})
    with CaptureQueriesContext(connection) as asked:
        tell_job(attempt, JUDGING | {"done": 4, "peak_memory_bytes": 3 << 30})
    assert sum(query["sql"].startswith('UPDATE "endpoints_judge"') for query in asked) == 1
    found = judge_document(get_judge(held.pk))
    assert (found["answered"], found["peakMemoryBytes"]) == (4, 3 << 30)
    assert found["lastFault"] == "Its job was lost once and started again."
    for words in (["list"], ["get", held.pk]):
        assert Command().run(words) == 0
        said = capsys.readouterr().out
        assert "answering" in said and "3.0 GiB" in said and "was lost once" in said
    wanted.clear()
    end_job(attempt, "stopped")
    assert [*states, state_of(get_judge(held.pk))] == ["waiting", "starting", "released"]


def test_capacity_names_whom_a_judge_is_held_for(judge, wanted, capsys):
    hold(judge)
    (claim,) = capacity()["claims"]
    assert (claim["kind"], claim["for"], claim["heldFor"]) == (
        "JUDGE", judge.reference, {"kind": "RUN", "workId": "r1"})
    assert capacity_command.Command().run([]) == 0
    assert f"{claim['workId'][:12]} for run r1" in capsys.readouterr().out
