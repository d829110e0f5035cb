"""Every path computes what plain TRL computes: to the last bit on the strict one, to rounding on the fast one."""

import jobs
import plain_trl
import pytest
import tiny
import torch
from optimize_child.training import reference_check
from optimize_child.training.compute_path import choose_path
from optimize_child.training.head import compact_head
from safetensors.torch import load_file
from transformers import LlamaConfig, MixtralConfig, Qwen2Config
from trl.trainer import utils

pytestmark = pytest.mark.filterwarnings("ignore")


def adapter_of(attempt):
    folder = attempt / tiny.events_of(attempt, "finished")[0]["adapter"]
    return load_file(folder / "adapter_model.safetensors")


@pytest.fixture(params=[tiny.SYSTEM, None], ids=["shared system prompt", "no system prompt"])
def both(request, tmp_path, base_model, write_rows):
    """Trains with plain TRL and with one of our plans over the same rows."""
    path = write_rows(tiny.ticket_rows(22, system=request.param))

    def both(**changes):
        plan = tiny.sft_plan(base_model, [path], **changes)
        plain = plain_trl.train(base_model, [path], tmp_path / "trl", plan["config"])
        return plain, jobs.run(tmp_path / "ours", plan)

    return both


def test_the_strict_path_is_bit_equal_to_plain_trl(both):
    (logged, weights), attempt = both(strict=True)
    assert tiny.events_of(attempt, "engine_config")[0]["resolved"]["path"]["kind"] == "compact"
    for figure in ("loss", "grad_norm", "learning_rate", "entropy", "mean_token_accuracy"):
        assert jobs.metrics(attempt, figure) == [entry[figure] for entry in logged], figure
    ours = adapter_of(attempt)
    for name, value in weights.items():
        assert torch.equal(ours[name.replace(".default", "")], value), name


def test_a_run_with_dropout_is_bit_equal_to_plain_trl(both):
    (logged, _), attempt = both(**{"config.hyperparams.lora.dropout": 0.1})
    assert tiny.events_of(attempt, "engine_config")[0]["resolved"]["path"]["kind"] == "compact"
    assert jobs.metrics(attempt, "loss") == [entry["loss"] for entry in logged]


def test_the_fast_path_is_equal_to_plain_trl_up_to_rounding(both):
    (logged, _), attempt = both()
    path = tiny.events_of(attempt, "engine_config")[0]["resolved"]["path"]
    assert (path["kind"], path["sharePrefix"]) == ("unpadded", True)
    for ours, theirs in zip(jobs.metrics(attempt, "loss")[:4], logged[:4], strict=True):
        assert ours == pytest.approx(theirs["loss"], rel=1e-6)
    for ours, theirs in zip(jobs.metrics(attempt, "grad_norm")[:4], logged[:4], strict=True):
        assert ours == pytest.approx(theirs["grad_norm"], rel=1e-5)


def test_the_first_loss_is_checked_against_the_plain_way_on_a_first_attempt_only(tmp_path, base_model, write_rows):
    plan = tiny.sft_plan(base_model, [write_rows(tiny.ticket_rows(8))])
    first = jobs.run(tmp_path / "first", plan)
    (check,) = tiny.events_of(first, "check")
    assert (check["name"], check["passed"]) == ("reference", True)
    assert check["value"] < 1e-6
    later = jobs.run(tmp_path / "later", {**plan, "first_attempt": False})
    assert not tiny.events_of(later, "check")
    assert jobs.adapter_bytes(first) == jobs.adapter_bytes(later)


def test_a_first_loss_far_from_the_plain_one_stops_the_run(tmp_path, base_model, write_rows, monkeypatch):
    monkeypatch.setitem(reference_check.BOUND, "cpu", 1e-12)
    monkeypatch.setattr("optimize_child.training.layouts._next_labels", lambda labels: labels)
    attempt = jobs.run(tmp_path / "a", tiny.sft_plan(base_model, [write_rows(tiny.ticket_rows(8))]))
    assert jobs.failure(attempt)["code"] == "reference_check_failed"
    assert not (attempt / "snapshots").exists()


def test_memory_limits_of_a_pass_change_no_result(tmp_path, base_model, write_rows):
    path = write_rows(tiny.ticket_rows(16))
    whole = jobs.run(tmp_path / "a", tiny.sft_plan(base_model, [path]))
    single = jobs.run(tmp_path / "b", tiny.sft_plan(base_model, [path], **{"execution.microBatchSequences": 1}))
    assert jobs.metrics(single, "loss") == pytest.approx(jobs.metrics(whole, "loss"), rel=1e-5)


def test_the_compact_head_is_still_a_switch_of_the_pinned_library():
    assert utils._use_triton(torch.device("cpu")) is False
    with compact_head():
        assert utils._use_triton(torch.device("cpu")) is True
    assert utils._use_triton(torch.device("cpu")) is False


LLAMA = LlamaConfig()
GUARDS = [
    (LLAMA, {}, "unpadded"),
    (LLAMA, {"strict": True}, "compact"),
    (LLAMA, {"dropout": 0.1}, "compact"),
    (LLAMA, {"attention": "eager"}, "compact"),
    (LLAMA, {"device": "cuda"}, "plain"),
    (LlamaConfig(attention_dropout=0.1), {}, "compact"),
    (MixtralConfig(), {}, "compact"),
    (Qwen2Config(use_sliding_window=False), {}, "unpadded"),
    (Qwen2Config(use_sliding_window=True, sliding_window=64, max_window_layers=1), {}, "compact"),
]


@pytest.mark.parametrize(("config", "changes", "kind"), GUARDS)
def test_whatever_the_guards_name_takes_the_plainer_path(config, changes, kind):
    asked = {"device": "cpu", "strict": False, "dropout": 0.0, "attention": "sdpa", **changes}
    path = choose_path(config, **asked)
    assert path.kind == kind
    assert path.reason


def test_a_model_that_reads_images_takes_the_plainer_path():
    class Config:
        model_type = "llama"
        vision_config = object()

    assert choose_path(Config(), device="cpu", strict=False, dropout=0, attention="sdpa").kind == "compact"
