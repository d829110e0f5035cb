"""A preference run through the operations: started over pairs, played as its job would, and what its surfaces show."""

import json

import pytest

from gpu_worker.engines import plans
from optimize_site.kernel.auth import LOCAL
from runs import queries, render
from runs.models import Snapshot
from runs.operations import advance_run, branch_run, check_run, submit_run
from runs.operations.branching import Wish
from runs.table_text import metric_columns
from runs.text import result_rows
from runs.work import RunWork
from tests import factories as make
from tests import playing

pytestmark = pytest.mark.django_db
LOSS = {"kind": "ipo", "beta": 0.2, "fused": True, "how": "one pair at a time"}


def pair(number):
    answers = {name: {"role": "assistant", "content": f"{name} {number}"} for name in ("chosen", "rejected")}
    return json.dumps({"prompt": [{"role": "user", "content": f"Ticket {number}"}]} | answers).encode() + b"\n"


@pytest.fixture
def box(db, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    make.make_device("cpu")
    make.make_device("host", kind="host", profile="host")
    make.make_workload()
    make.make_base_model()
    pairs = make.make_dataset("triage/train", b"".join(pair(number) for number in range(4)))
    make.analyze(pairs, [100] * 4)
    return pairs


def document(**config):
    return make.run_document(config={"method": "dpo", "maxSeqLength": 512, **config})


@pytest.fixture
def training(box):
    """A preference run whose first two updates were told, and its attempt."""
    run = submit_run(document(preference={"beta": 0.2, "lossType": "ipo"}), actor=LOCAL).run
    advance_run(run.pk)
    attempt = playing.claim(playing.reread(run))
    figures = [{"preference_accuracy": share, "reward_margin": chosen - rejected, "reward_chosen": chosen,
                "reward_rejected": rejected} for share, chosen, rejected in ((0.5, 0.0, -0.01), (0.75, -0.25, -0.5))]
    run = playing.say(
        run, attempt, playing.STARTED, {"type": "plan_size", "totalSteps": 4, "rowsPerEpoch": 4},
        {"type": "engine_config", "requested": {}, "resolved": {"engine": "trl", "preferenceLoss": LOSS}},
        *(playing.metrics(step, **values) for step, values in enumerate(figures, start=1)),
        {"type": "validation", "step": 2, "loss": 0.6, "perplexity": None})
    return run, attempt


@pytest.mark.requirement("R262", "R263")
def test_a_preference_run_is_planned_for_the_entry_of_its_method(training):
    run, attempt = training
    plan = plans.complete(RunWork().plan(run, attempt), attempt=attempt.pk, subject={"kind": "run", "id": run.pk},
                          threads=1, device={"kind": "cpu", "uuids": []})
    assert plan["entry"] == "dpo"
    assert plan["config"]["preference"] == {"beta": 0.2, "lossType": "ipo", "fusedLoss": True}
    assert plan["dataset"]["format"] == "preference-jsonl-v1"


@pytest.mark.requirement("R270")
def test_accuracy_margin_and_the_loss_it_used_are_shown(training):
    run, _ = training
    shown = render.run_document(run)
    assert shown["preference"] == {"step": 2, "accuracy": 0.75, "margin": 0.25, "loss": LOSS}
    rows = dict(result_rows(shown))
    assert rows["Preference accuracy"] == "75.0% of the pairs of update 2"
    assert rows["Preference loss"] == "ipo at beta 0.2, one pair at a time"
    steps = [render.metric_document(row) for row in queries.metrics_of(run)]
    assert [(step["preferenceAccuracy"], step["rewardMargin"]) for step in steps] == [(0.5, 0.01), (0.75, 0.25)]
    assert [(step["rewardChosen"], step["rewardRejected"]) for step in steps] == [(0.0, -0.01), (-0.25, -0.5)]
    assert metric_columns(steps)[-4:] == ["preferenceAccuracy", "rewardMargin", "rewardChosen", "rewardRejected"]


def test_a_supervised_run_has_no_preference_figures(box):
    make.make_dataset("triage/chats", 6)
    run = submit_run(make.run_document(config={"dataset": "chats"}), actor=LOCAL).run
    assert render.run_document(run)["preference"] is None


@pytest.mark.requirement("R262")
def test_an_unmeasured_preference_run_is_admitted_with_a_warning(box):
    found = check_run(document(), actor=LOCAL)
    assert found["problems"] == []
    assert any("has not been measured with dpo" in warning["message"] for warning in found["warnings"])


@pytest.fixture
def supervised(box):
    """A completed supervised run that trained every assistant turn of packed rows."""
    make.analyze(make.make_dataset("triage/chats", 6), [100] * 6)
    stated = {"dataset": "chats", "data": {"packing": True}, "loss": {"assistantTurns": "all"}}
    run = submit_run(make.run_document(config=stated), actor=LOCAL).run
    return complete(run)


def complete(run):
    advance_run(run.pk)
    attempt = playing.claim(playing.reread(run))
    playing.say(run, attempt, playing.STARTED, playing.metrics(2), playing.save(attempt, 2, final=True))
    playing.end(run, attempt, "finished")
    advance_run(run.pk)
    return playing.reread(run)


def to_pairs(parent, **changes):
    snapshot = Snapshot.objects.get(run=parent, step=2)
    return Wish(snapshot, 3, overrides={"method": "dpo", "dataset": "triage/train:v1"}, **changes)


@pytest.mark.requirement("R262")
def test_a_weights_branch_of_a_supervised_run_learns_from_pairs(supervised):
    child = playing.reread(branch_run(to_pairs(supervised), actor=LOCAL).run)
    assert (child.method, child.restore_mode) == ("dpo", "weights")
    assert child.restore_reason == "A fresh optimizer: the method changes from sft to dpo."
    assert child.config["hyperparams"]["lora"] == supervised.config["hyperparams"]["lora"]
    assert (child.config["data"]["packing"], child.config["loss"]["assistantTurns"]) == (False, "last")
    assert child.config["preference"]["beta"] == 0.1


def test_a_run_over_pairs_that_started_from_an_adapter_is_branched_by_its_weights(supervised):
    first = complete(branch_run(to_pairs(supervised), actor=LOCAL).run)
    again = playing.reread(branch_run(Wish(Snapshot.objects.get(run=first, step=2), 3), actor=LOCAL).run)
    assert again.restore_mode == "weights"
    assert "compared with the adapter" in again.restore_reason
