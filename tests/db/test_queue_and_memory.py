"""Waiting runs in their order, runs that no device will ever come for, and runs that ran out of device memory."""

import pytest

from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.models import Device
from runs.errors import RunNotWaiting
from runs.models import Run
from runs.operations import advance_run, prioritize_run
from runs.operations.smaller_passes import halved_execution
from tests.factories import make_device, make_run
from tests.playing import STARTED, WORK, claim, end, failure, reread, say

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def device(db):
    return make_device()


def waiting(**changes):
    run = make_run(**changes)
    advance_run(run.pk)
    return reread(run)


def order():
    return list(Run.objects.filter(phase="AWAITING_CAPACITY").order_by("queued_at").values_list("pk", flat=True))


def test_a_waiting_run_is_put_in_front_or_behind_another(device):
    first, second, third = (waiting().pk for _ in range(3))
    prioritize_run(Run.objects.get(pk=third), actor=LOCAL)
    assert order() == [third, first, second]
    prioritize_run(Run.objects.get(pk=third), behind=Run.objects.get(pk=first), actor=LOCAL)
    assert order() == [first, third, second]
    prioritize_run(Run.objects.get(pk=first), behind=Run.objects.get(pk=second), actor=LOCAL)
    assert order() == [third, second, first]


def test_a_run_that_does_not_wait_has_no_place(device):
    run = waiting()
    claim(run)
    with pytest.raises(RunNotWaiting, match="is STARTING_JOB"):
        prioritize_run(reread(run), actor=LOCAL)


@pytest.mark.requirement("R209")
@pytest.mark.parametrize(("wanted", "left"), [(1, 0), (2, 1)])
def test_a_waiting_run_fails_with_the_reason_once_too_few_of_its_devices_are_there(device, wanted, left):
    run = waiting()
    Run.objects.update(execution=run.execution | {"gpus": wanted})
    Device.objects.filter(uuid="cpu").update(is_present=bool(left))
    advance_run(run.pk)
    run = reread(run)
    assert (run.phase, run.failure_code) == ("FAILED", "devices_gone")
    noun = "device" if wanted == 1 else "devices"
    assert f"waits for {wanted} {noun} of the profile cpu, and this box now has {left}" in run.failure_reason
    assert run.failure_evidence == {"deviceProfile": "cpu", "wanted": wanted, "present": left}


def out_of_memory(run):
    attempt = claim(run)
    say(run, attempt, STARTED, failure("out_of_device_memory", "The device ran out of memory."))
    return end(run, attempt, "failed")


@pytest.mark.requirement("R358")
def test_out_of_device_memory_is_tried_once_more_with_half_the_sequences_a_pass(device):
    run = waiting()
    config_hash = run.config_hash
    whole = run.config["hyperparams"]["training"]["microBatchPerGpu"]
    run = out_of_memory(run)
    assert run.phase == "AWAITING_CAPACITY"
    assert WORK.plan(WORK.get(run.pk), claim(run))["execution"]["microBatchSequences"] == whole // 2
    assert run.config_hash == config_hash
    assert "started again with at most" in run.warnings[-1]["message"]


@pytest.mark.requirement("R358", "R269")
@pytest.mark.parametrize(("pairs", "halved"), [(4, 4), (2, 2), (1, None)])
def test_half_the_sequences_of_a_pass_of_pairs_are_half_of_its_pairs(device, pairs, halved):
    run = waiting()
    run.config = run.config | {"method": "dpo", "hyperparams": {"training": {"microBatchPerGpu": pairs}}}
    assert (halved_execution(run) or {}).get("microBatchSequences") == halved


@pytest.mark.requirement("R358")
@pytest.mark.parametrize(("group", "halved"), [(8, 4), (3, 1), (1, None)])
def test_half_the_sequences_of_a_pass_of_completions_are_half_of_a_prompt_s(device, group, halved):
    run = waiting()
    run.config = {"method": "grpo", "rlHyperparams": {"groupSize": group}}
    assert (halved_execution(run) or {}).get("microBatchSequences") == halved


@pytest.mark.requirement("R358")
@pytest.mark.parametrize("changes", [{"execution": {"microBatchSequences": 2}},
                                     {"config": {"hyperparams": {"training": {"microBatchPerGpu": 4}}}}])
def test_a_run_that_stated_its_pass_fails_and_says_what_to_change(device, changes):
    run = out_of_memory(waiting(**changes))
    advance_run(run.pk)
    run = reread(run)
    assert (run.phase, run.failure_code) == ("FAILED", "out_of_device_memory")
    assert run.failure_hint


def test_a_run_that_runs_out_of_memory_again_fails(device):
    run = out_of_memory(out_of_memory(waiting()))
    assert (run.phase, run.failure_code) == ("CLEANING_UP", "out_of_device_memory")
