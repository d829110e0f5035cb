"""A pass for which there is no memory says where it was and how many tokens would have had room."""

import json

import jobs
import pytest
import tiny
import torch
from optimize_child import memory, stacks
from optimize_child.memory import GiB, tokens_that_fit, wanted_bytes
from optimize_child.training import trainer

pytestmark = pytest.mark.filterwarnings("ignore")
DEVICE = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total of 24 GiB")
HOST = RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory: you tried 99 bytes.")


@pytest.mark.requirement("R358")
@pytest.mark.parametrize(("error", "code"), [(DEVICE, "out_of_device_memory"), (HOST, "out_of_host_memory")])
def test_a_pass_that_ran_out_of_memory_says_how_many_tokens_would_fit(
    base_model, write_rows, tmp_path, monkeypatch, error, code
):
    honest = trainer.SupervisedTrainer.pass_loss
    passes = []

    def short(self, model, part, whole):
        if model.training:
            passes.append(part["input_ids"].numel())
        if self.state.global_step == 1:
            raise error
        return honest(self, model, part, whole)

    monkeypatch.setattr(trainer.SupervisedTrainer, "pass_loss", short)
    monkeypatch.setattr(memory, "whole_memory", lambda device: memory.used_memory(device) + 1)
    attempt = jobs.run(tmp_path / "a", tiny.sft_plan(base_model, [write_rows(tiny.ticket_rows(16))]))
    failed = jobs.failure(attempt)
    announced = json.loads((attempt / "pass.json").read_text())  # for whoever finds the job gone
    assert (announced["step"], announced["passTokens"]) == (2, passes[-1])
    assert 1 <= announced["fittingTokens"] < passes[-1]
    fit = failed["evidence"]["fitting_tokens"]
    assert failed["code"] == code
    assert f"ran out of memory in update 2, in a pass of {passes[-1]:,} tokens; about {fit:,} would fit." in (
        failed["reason"])
    assert f"no pass holds more than about {fit:,} tokens" in failed["hint"]
    assert "gradientCheckpointing" in failed["hint"] and "INT4" in failed["hint"]


def test_what_would_fit_follows_from_the_largest_pass_that_succeeded_and_never_says_as_many_again():
    def fit(**known):
        return tokens_that_fit(20 * GiB, 10_000, **({"grown": 0, "grown_of": 0, "reached": 0} | known))

    assert fit(grown=4 * GiB, grown_of=1000, reached=99 * GiB) == 4500
    assert fit(reached=25 * GiB) == 7200
    assert fit(grown=1, grown_of=100) == 9999
    assert fit(grown=19 * GiB, grown_of=9_500) == 9_500  # it succeeded, whatever is spared
    assert fit() == 9000


def test_the_size_of_the_allocation_that_failed_is_read_from_its_message():
    assert wanted_bytes(DEVICE) == 2.5 * GiB
    assert wanted_bytes(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 512.00 KiB.")) == 512 * 1024
    assert wanted_bytes(MemoryError()) == 0


def test_a_job_lets_the_worker_that_watches_it_read_its_stacks(base_model, write_rows, tmp_path, monkeypatch):
    asked = []

    class Library:
        def prctl(self, *arguments):
            asked.append(arguments)

    monkeypatch.setattr(stacks.ctypes, "CDLL", lambda _: Library())
    jobs.run(tmp_path / "a", {**tiny.sft_plan(base_model, [write_rows(tiny.ticket_rows(4))]), "entry": "none"})
    assert asked == [(0x59616D61, stacks.ANYBODY, 0, 0, 0)]
