"""Every way in which a pass of preference pairs is computed makes the updates of TRL's own trainer, to 1e-6, with
activations recomputed, which is dpo's default."""

import jobs
import plain_dpo
import pytest
import tiny
import torch
from test_dpo import began_with, short_pairs, train  # noqa: F401 - fixtures
from test_fused_pairs import as_on_a_gpu  # noqa: F401 - a fixture
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

pytestmark = pytest.mark.filterwarnings("ignore")
WAYS = {"one pair at a time": {}, "all of a pass": {"config.preference.fusedLoss": False}, "padded": {"strict": True},
        "Liger's": {}}  # fmt: skip
KINDS = {"one pair at a time": "unpadded", "all of a pass": "compact", "padded": "compact", "Liger's": "fused"}


@pytest.mark.requirement("R263", "R264", "R268")
@pytest.mark.parametrize("loss_type", ["sigmoid", "ipo"])
@pytest.mark.parametrize("way", WAYS)
def test_updates_are_those_of_trls_trainer_whatever_computes_them(
    train, base_model, began_with, request, tmp_path, way, loss_type  # noqa: F811
):
    if way == "Liger's":
        request.getfixturevalue("as_on_a_gpu")
    rows = short_pairs(8)
    changes = {"config.preference.lossType": loss_type, "config.data.shuffle": False, **WAYS[way]}
    attempt = train(rows, **changes)
    resolved = tiny.events_of(attempt, "engine_config")[0]["resolved"]
    assert (resolved["path"]["kind"], resolved["gradientCheckpointing"]) == (KINDS[way], True)
    config = tiny.dpo_plan(base_model, [], **changes)["config"]
    theirs = plain_dpo.replayed(base_model, rows, began_with, tmp_path / "plain", config)
    assert len(theirs) == len(began_with) == 2
    for name, their_name in (("loss", "loss"), ("reward_margin", "rewards/margins"),
                             ("reward_chosen", "rewards/chosen"), ("reward_rejected", "rewards/rejected")):  # fmt: skip
        assert jobs.metrics(attempt, name) == pytest.approx([one[their_name] for one in theirs], rel=1e-6, abs=1e-6)


@pytest.mark.requirement("R264")
@pytest.mark.parametrize("way", ["one pair at a time", "padded"])
def test_activations_are_recomputed_unless_the_run_says_that_they_are_not(train, monkeypatch, way):  # noqa: F811
    computed, own = [], LlamaDecoderLayer.forward

    def forward(layer, *given, **named):
        computed.append(torch.is_grad_enabled())
        return own(layer, *given, **named)

    monkeypatch.setattr(LlamaDecoderLayer, "forward", forward)

    def with_gradient(**changes):
        computed.clear()
        train(tiny.pair_rows(4), **WAYS[way], **changes)
        return sum(computed)

    assert with_gradient() == 2 * with_gradient(**{"config.model.gradientCheckpointing": False}) > 0
