"""Liger's fused loss of preference pairs: the way of a GPU, computed here by Liger itself on the CPU."""

import jobs
import pytest
import tiny
import torch
from optimize_child.dpo import PreferenceRun
from optimize_child.pairs import fused_pairs
from optimize_child.pairs.liger_pairs import Head, pair_loss
from optimize_child.pairs.loss import preference_loss
from optimize_child.reading.token_rows import IGNORED
from optimize_child.training import trl_arguments
from transformers import LlamaConfig, LlamaForCausalLM

pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 16}


@pytest.fixture
def train(runs_of):
    """Runs one plan over some pairs, each call in an attempt of its own."""
    return runs_of(tiny.pair_rows(12), tiny.dpo_plan)


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Liger counts as usable where these tests run: its loss of pairs is torch alone."""
    monkeypatch.setattr(fused_pairs, "_is_usable", lambda device: True)


@pytest.fixture
def watched(monkeypatch):
    """The hidden states that each call of Liger's loss was given, by their shape."""
    from optimize_child.pairs import liger_pairs

    shapes, own = [], liger_pairs.pair_loss
    monkeypatch.setattr(liger_pairs, "pair_loss", lambda hidden, *rest, **more: (
        shapes.append(tuple(hidden.shape)), own(hidden, *rest, **more))[1])  # fmt: skip
    return shapes


def resolved(attempt):
    return tiny.events_of(attempt, "engine_config")[0]["resolved"]


@pytest.mark.requirement("R268")
@pytest.mark.parametrize("loss_type", ["sigmoid", "ipo"])
def test_pairs_batched_in_a_pass_under_ligers_loss_train_what_pairs_one_at_a_time_train(
    train, as_on_a_gpu, watched, monkeypatch, loss_type
):
    changes = {"config.preference.lossType": loss_type, "config.hyperparams.training.validationFrequencySteps": 1}
    fused = train(**changes)
    assert watched and all(rows == 2 for rows, *_ in watched)
    monkeypatch.undo()
    one = train(**changes)
    for name in ("loss", "grad_norm", "reward_margin", "preference_accuracy"):
        assert jobs.metrics(fused, name) == pytest.approx(jobs.metrics(one, name), rel=1e-3, abs=1e-5), name
    told = resolved(fused)["preferenceLoss"]
    assert (told["liger"], told["how"]) == (True, "with Liger's fused loss, 2 pairs a pass")
    assert (resolved(one)["preferenceLoss"]["liger"], resolved(one)["path"]["kind"]) == (False, "unpadded")
    (check,) = tiny.events_of(fused, "check")
    assert check["passed"], check


@pytest.mark.requirement("R268")
@pytest.mark.parametrize("beta", [0.1, 500.0])
def test_both_ways_are_compared_by_the_answers_whose_rounding_does_not_grow_with_beta(train, as_on_a_gpu, beta):
    attempt = train(**{"config.preference.beta": beta, "config.hyperparams.training.maxSteps": 1})
    (check,) = tiny.events_of(attempt, "check")
    assert check["passed"], check
    assert float(check["detail"].split()[1]) == pytest.approx(6, abs=1.5)  # of a random model over 400 tokens


@pytest.mark.requirement("R268")
def test_fused_loss_false_or_room_for_one_pair_or_a_strict_plan_takes_another_loss(train, as_on_a_gpu, watched):
    asked = {"config.preference.fusedLoss": False}, {"execution.microBatchSequences": 3}, {"strict": True}
    found = [resolved(train(tiny.pair_rows(2), **changes)) for changes in asked]
    assert not watched
    assert [each["preferenceLoss"]["liger"] for each in found] == [False] * 3
    told = [each["preferenceLoss"]["how"] for each in found]
    assert told == ["every pair of a pass at once", "one pair at a time", "one pair at a time"]


@pytest.mark.requirement("R268")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_liger_is_not_taken_where_its_kernels_cannot_run(device):
    model = LlamaForCausalLM(LlamaConfig(**SMALL))
    assert not trl_arguments.liger_usable()
    assert "cannot be" in fused_pairs.why_not(model, device)


@pytest.mark.requirement("R268")
def test_a_gpu_that_cannot_take_ligers_loss_takes_one_pair_at_a_time_and_says_why(monkeypatch):
    run = object.__new__(PreferenceRun)
    run.training, run.plan, run.device = {"microBatchPerGpu": 4}, {"execution": {}, "strict": False}, "cuda"
    run.config, run.rows = tiny.dpo_plan("base", [])["config"], None
    run.model = LlamaForCausalLM(LlamaConfig(**SMALL))
    run.path = run._path()
    assert (run.path.kind, run._pairs_a_pass()) == ("plain", 1)
    assert run._how().startswith("one pair at a time, since Liger's kernels cannot be used")
    monkeypatch.setattr(fused_pairs, "_is_usable", lambda device: device == "cuda")
    run.path = run._path()
    assert (run.path.kind, run._pairs_a_pass()) == ("fused", 4)


@pytest.mark.parametrize(("change", "reason"), [
    (lambda model: setattr(model.config, "final_logit_softcapping", 30.0), "final_logit_softcapping"),
    (lambda model: setattr(model.config, "vision_config", {}), "more than text"),
    (lambda model: model.set_output_embeddings(torch.nn.Sequential(model.lm_head)), "no plain linear layer"),
    (lambda model: setattr(model.config, "logit_scale", 1.0), None)])  # fmt: skip
def test_a_head_that_is_more_than_one_product_is_left_to_the_model(as_on_a_gpu, change, reason):
    model = LlamaForCausalLM(LlamaConfig(**SMALL))
    assert fused_pairs.why_not(model, "cuda") is None
    change(model)
    found = fused_pairs.why_not(model, "cuda")
    assert found is None if reason is None else reason in found


@pytest.mark.requirement("R268")
@pytest.mark.parametrize("loss_type", ["sigmoid", "ipo"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_the_loss_of_a_pair_and_its_gradient_are_those_of_the_formula(loss_type, with_bias):
    torch.manual_seed(0)
    hidden = torch.randn(2, 5, 8, requires_grad=True)
    head = Head(torch.randn(16, 8), torch.randn(16) if with_bias else None)
    labels = torch.randint(0, 16, (2, 5))
    labels[1, 3:] = IGNORED
    reference = torch.tensor([-9.0, -7.0])
    loss, logps = pair_loss(hidden, head, labels, reference, beta=0.3, loss_type=loss_type)
    (loss / 4).backward()

    exact = hidden.detach().double().requires_grad_()
    logits = torch.nn.functional.linear(exact, head.weight.double(), None if head.bias is None else head.bias.double())
    each = logits.log_softmax(-1).gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1) * (labels != IGNORED)
    expected = preference_loss(each.sum(-1) - reference, torch.tensor([5, 3]), beta=0.3, loss_type=loss_type).sum()
    (expected / 4).backward()
    assert float(loss) == pytest.approx(float(expected), rel=1e-6)
    assert logps.tolist() == pytest.approx(each.sum(-1).tolist(), rel=1e-6)
    assert torch.allclose(hidden.grad.double(), exact.grad, rtol=1e-6, atol=1e-6)
