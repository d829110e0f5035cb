"""A run that leaves the numbers ends there and leaves no model behind."""

import jobs
import pytest
import tiny
import torch
from optimize_child.saves import captured
from optimize_child.training import trainer

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def plan(base_model, write_rows):
    return tiny.sft_plan(base_model, [write_rows(tiny.ticket_rows(16))])


def no_final_snapshot(attempt) -> bool:
    return not any(event["final"] for event in tiny.events_of(attempt, "snapshot"))


def test_f02_a_loss_that_is_no_number_stops_the_run(plan, tmp_path, monkeypatch):
    honest = trainer.SupervisedTrainer.pass_loss

    def poisoned(self, *args):
        loss = honest(self, *args)
        return loss * float("nan") if self.model.training and self.state.global_step == 1 else loss

    monkeypatch.setattr(trainer.SupervisedTrainer, "pass_loss", poisoned)
    attempt = jobs.run(tmp_path / "a", plan)
    failed = jobs.failure(attempt)
    assert failed["code"] == "non_finite_loss"
    assert "update 2" in failed["reason"]
    assert no_final_snapshot(attempt)


def test_f02_a_gradient_that_is_no_number_never_reaches_the_weights(plan, tmp_path, monkeypatch):
    honest = trainer.SupervisedTrainer.pass_loss

    def poisoned(self, *args):
        loss = honest(self, *args)
        if self.model.training and self.state.global_step == 1:
            loss.register_hook(lambda gradient: gradient * float("inf"))
        return loss

    monkeypatch.setattr(trainer.SupervisedTrainer, "pass_loss", poisoned)
    attempt = jobs.run(tmp_path / "a", plan)
    assert jobs.failure(attempt)["code"] == "non_finite_gradient"
    assert no_final_snapshot(attempt)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_the_tensor_whose_gradient_is_no_number_is_named_although_clipping_would_spread_it(
    plan, tmp_path, monkeypatch, poison
):
    honest = trainer.SupervisedTrainer.pass_loss

    def poisoned(self, model, *args):
        if model.training and self.state.global_step == 1:
            for name, part in model.named_parameters():
                if "layers.1.self_attn.v_proj.lora_B" in name:
                    part.register_hook(lambda gradient: gradient * poison)
        return honest(self, model, *args)

    monkeypatch.setattr(trainer.SupervisedTrainer, "pass_loss", poisoned)
    failed = jobs.failure(jobs.run(tmp_path / "a", plan))
    (name,) = failed["evidence"]["tensors"]
    assert name.endswith("layers.1.self_attn.v_proj.lora_B.default.weight")
    assert f"gradient of update 2 is not finite ({poison}) in {name}." in failed["reason"]


def test_f02_weights_that_are_no_numbers_are_never_saved(plan, tmp_path, monkeypatch):
    honest = captured.get_peft_model_state_dict

    def poisoned(model):
        return {name: tensor * float("nan") for name, tensor in honest(model).items()}

    monkeypatch.setattr(captured, "get_peft_model_state_dict", poisoned)
    attempt = jobs.run(tmp_path / "a", plan)
    failed = jobs.failure(attempt)
    assert failed["code"] == "non_finite_weights"
    assert "lora_A.weight and 27 other tensors" in failed["reason"]
    assert no_final_snapshot(attempt)


def test_a_learning_rate_far_too_high_ends_in_a_failure_that_says_so(plan, tmp_path):
    plan["config"]["hyperparams"]["optimizer"].update(learningRate=1e30, maxGradNorm=1e30)
    attempt = jobs.run(tmp_path / "a", plan)
    failed = jobs.failure(attempt)
    assert failed["code"].startswith("non_finite_")
    assert "learningRate" in failed["hint"]
    assert torch.isfinite(torch.tensor(jobs.metrics(attempt, "loss"))).all()
