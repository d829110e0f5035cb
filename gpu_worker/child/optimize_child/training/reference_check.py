"""The first loss of a run beside the one that plain TRL computes: a sequence of our own making must not change it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from optimize_child.events import EventLog
from optimize_child.failures import JobFailure

# Relative differences of two ways to sum the same loss: rounding on the CPU's fp32; a GPU's bf16 is coarser.
BOUND = {"cpu": 1e-5, "cuda": 3e-2}
# Absolute differences of a token's log-probability, as it was sampled and as the update computes it.
SAMPLED_BOUND = {"cpu": 1e-3, "cuda": 5e-2}
# Mean absolute differences of the same between the trainer and another engine that sampled.
ENGINE_BOUND = {"cpu": 1e-2, "cuda": 5e-2}
ROWS = 2
REFUSED_ABOVE = 5.0


def check_first_loss(events: EventLog, device: str, ours: Callable[[], float], plain: Callable[[], float]) -> None:
    """Compute the loss both ways, forward only, generators as before; say how far apart they are.

    Raises JobFailure `reference_check_failed` where that is more than five times the bound.
    """
    started = time.perf_counter()
    with generators_restored():
        our_loss, plain_loss = ours(), plain()
    value = abs(our_loss - plain_loss) / max(abs(plain_loss), 1e-12)
    bound = BOUND[device]
    events.emit(
        "check",
        name="reference",
        passed=value <= bound,
        value=value,
        bound=bound,
        seconds=round(time.perf_counter() - started, 3),
        detail=f"loss {our_loss!r} beside {plain_loss!r} of plain TRL",
    )
    if value > bound * REFUSED_ABOVE:
        raise JobFailure(
            "reference_check_failed",
            f"The first loss is {our_loss} and plain TRL computes {plain_loss}: {value:.2g} apart, allowed is "
            f"{bound:.2g}.",
            hint="Set trainer.jobs.strict-compute = true in the box's settings.toml, which computes the plain way, "
            "and start it again.",
        )
    if value > bound:
        events.emit(
            "warning",
            code="reference_over_bound",
            message=f"The first loss is {value:.2g} from plain TRL's, over the bound {bound:.2g}.",
        )


def check_sampled(events: EventLog, device: str, sampled: torch.Tensor, learned: torch.Tensor) -> None:
    """What is learned from is what was sampled: each token as likely in the update as when it was drawn.

    Raises JobFailure `reference_check_failed` where one is more than five times the bound apart.
    """
    value, bound = float((sampled - learned).abs().max()), SAMPLED_BOUND[device]
    detail = f"the log-probabilities of {len(sampled)} sampled tokens"
    events.emit("check", name="on_policy", passed=value <= bound, value=value, bound=bound, detail=detail)
    if value > bound * REFUSED_ABOVE:
        raise JobFailure(
            "reference_check_failed",
            f"A sampled token's log-probability is {value:.2g} from what the update computes; allowed is {bound:.2g}.",
            hint="Set trainer.jobs.strict-compute = true in the box's settings.toml, which samples and computes the "
            "plain way, and start it again.",
        )


def check_engine(events: EventLog, device: str, gap: float, step: int, *, tell: bool) -> None:
    """The engine that sampled an update computes the policy that learns from it; told of where `tell` says so.

    Raises JobFailure `reference_check_failed` where they are more than five times the bound apart.
    """
    bound = ENGINE_BOUND[device]
    if tell:
        detail = "the mean difference of a sampled token's log-probability, the sampling engine's and the trainer's"
        events.emit("check", name="on_policy", passed=gap <= bound, value=gap, bound=bound, detail=detail)
    if gap > bound * REFUSED_ABOVE:
        raise JobFailure(
            "reference_check_failed",
            f"What sampled update {step} and the trainer are {gap:.2g} apart about a token's log-probability; allowed "
            f"is {bound * REFUSED_ABOVE:.2g}.",
            hint='Set trainer.rollouts.sampler = "own" in the box\'s settings.toml, which samples with the trainer\'s '
            "own model, and start it again.",
        )


@contextmanager
def generators_restored() -> Iterator[None]:
    """Whatever is drawn inside leaves no trace: the run's own draws come out as if it had not happened."""
    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.random.set_rng_state(states[2])
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
