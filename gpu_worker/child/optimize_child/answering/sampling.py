"""Sampling completions: as answers are made, with each next token drawn instead of the likeliest one taken.

A completion's draws are numbers of its own, a function of the run's seed, its update's place in the data, its prompt
and its place in the group. An attempt that goes on from a snapshot makes the same completions as one that was never
interrupted, and a completion does not depend on which others are sampled beside it, but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from optimize_child.answering.answers import Answering, Asked, Limits
from optimize_child.answering.row_memory import RowMemory

# Fixed, and not measured as an evaluation's is: another count rounds otherwise, and a resumed run must not.
SLOTS = 32


@dataclass
class Sampled(Asked):
    """A completion as far as it is known. `tokens` are all that were sampled, the one it ended at too; `draws` are
    numbers in [0, 1), one a token, and None takes the likeliest. Its key is (group, index)."""

    draws: np.ndarray | None = None
    tokens: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)

    @property
    def group(self) -> int:
        return int(self.key[0])


@dataclass(frozen=True)
class Manner:
    """How completions are sampled: so many for each prompt, at a temperature (0: greedily), from this seed."""

    group_size: int
    temperature: float
    limits: Limits
    seed: int
    pad_token_id: int

    def asked(self, prompts: Sequence[Sequence[int]], place: int) -> list[Sampled]:
        """Empty completions of every prompt, groups in order. `place` is the update's number in the data's order."""
        return [
            Sampled((group, index), list(prompt), draws=self._draws(place, group, index))
            for group, prompt in enumerate(prompts)
            for index in range(self.group_size)
        ]

    def seed_of(self, place: int, group: int, index: int) -> int:
        """The seed of one completion, for an engine that draws by itself: 63 bits of what our own draws come from."""
        return int(self._key(place, group, index).generate_state(1, np.uint64)[0] >> np.uint64(1))

    def _draws(self, place: int, group: int, index: int) -> np.ndarray | None:
        if not self.temperature:
            return None
        key = self._key(place, group, index)
        return np.random.Generator(np.random.Philox(key)).random(self.limits.max_new_tokens)

    def _key(self, place: int, group: int, index: int) -> np.random.SeedSequence:
        return np.random.SeedSequence([self.seed, place, group, index])


def sample(model: Any, asked: list[Sampled], manner: Manner) -> None:
    """Fill in every completion, with our own loop; for the decoders whose attention it knows."""
    with torch.inference_mode():
        for _ in Sampling(model, asked, manner).run():
            pass


class Sampling(Answering):
    """The loop of answers; a prompt is read once for all of its group that starts together."""

    def __init__(self, model: Any, asked: Sequence[Sampled], manner: Manner) -> None:
        super().__init__(model, asked, manner.limits, SLOTS)
        self.temperature = manner.temperature

    def _cost(self, asked: Asked, beside: Sequence[Asked]) -> int:
        return 0 if any(other.key[0] == asked.key[0] for other in beside) else super()._cost(asked, beside)

    def _prefill(self, memory: RowMemory, rows: list[Any], slots: list[int]) -> torch.Tensor:
        first: dict[int, int] = {}
        for slot in slots:
            first.setdefault(rows[slot].group, slot)
        logits = super()._prefill(memory, rows, list(first.values()))
        memory.copy([first[rows[slot].group] for slot in slots], slots)
        place = {group: at for at, group in enumerate(first)}
        return logits[[place[rows[slot].group] for slot in slots]]

    def _choose(self, rows: list[Any], slots: Sequence[int], logits: torch.Tensor) -> list[int]:
        """A token for each slot; a free one gets any."""
        if self.temperature:
            # A free slot's draw is not read.
            draws = [0.0 if rows[slot] is None else rows[slot].draws[len(rows[slot].tokens)] for slot in slots]
            tokens, logps = drawn(logits, draws, self.temperature)
        else:
            tokens = super()._choose(rows, slots, logits)
            logps = logps_of(logits, torch.tensor(tokens, device=logits.device), 1.0).tolist()
        for slot, logp in zip(slots, logps, strict=True):
            if rows[slot] is not None:
                rows[slot].logps.append(logp)
        return tokens

    def _take(self, rows: list[Any], slots: Sequence[int], tokens: Sequence[int]) -> None:
        for slot, token in zip(slots, tokens, strict=True):
            if rows[slot] is not None:
                rows[slot].tokens.append(token)
        super()._take(rows, slots, tokens)


def drawn(logits: torch.Tensor, draws: Sequence[float], temperature: float) -> tuple[list[int], list[float]]:
    """For each row of logits the token at which the summed probabilities pass its draw, and its log-probability."""
    logps = (logits.float() / temperature).log_softmax(-1)
    summed = logps.double().exp().cumsum(-1)
    target = torch.tensor(draws, dtype=torch.float64, device=logits.device)[:, None] * summed[:, -1:]
    found = torch.searchsorted(summed, target, right=True).clamp(max=logits.shape[-1] - 1)
    return found.squeeze(1).tolist(), logps.gather(1, found).squeeze(1).tolist()


def logps_of(logits: torch.Tensor, tokens: torch.Tensor, temperature: float) -> torch.Tensor:
    """The log-probability of a token in each row of logits."""
    return (logits.float() / temperature).log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


class Overheard(LogitsProcessor):  # type: ignore[misc]
    """How likely each token was that the library drew. It is handed the logits before their token is known, and keeps
    those of one step."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature or 1.0
        self._logits: torch.Tensor | None = None
        self._found: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self._settle(input_ids[:, -1])
        self._logits = scores
        return scores

    def _settle(self, tokens: torch.Tensor) -> None:
        if self._logits is not None:
            self._found.append(logps_of(self._logits, tokens, self._temperature))

    def logps(self, output: torch.Tensor) -> list[list[float]]:
        """The log-probabilities of a whole output's new tokens, a list for each row."""
        self._settle(output[:, -1])
        found: list[list[float]] = torch.stack(self._found, dim=1).tolist()
        return found


def sample_plainly(model: Any, asked: list[Sampled], manner: Manner, place: int, *, tells: bool = False) -> None:
    """Fill in every completion with the library's own generation, all in one padded batch; for what the loop does not
    know. Its generator is set from the seed and the update's place, and put back. With `tells` the log-probabilities
    are filled in too."""
    width = max(len(one.prompt) for one in asked)
    ids = torch.full((len(asked), width), manner.pad_token_id)
    mask = torch.zeros((len(asked), width), dtype=torch.long)
    for at, one in enumerate(asked):
        ids[at, width - len(one.prompt) :] = torch.tensor(one.prompt)
        mask[at, width - len(one.prompt) :] = 1
    overheard = Overheard(manner.temperature)
    with torch.inference_mode(), _seeded(manner.seed, place):
        output = model.generate(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            generation_config=_generation(manner),
            logits_processor=LogitsProcessorList([overheard] if tells else []),
        )
    for one, tokens in zip(asked, output[:, width:].tolist(), strict=True):
        _cut(one, tokens, manner.limits)
    for one, logps in zip(asked, overheard.logps(output) if tells else [], strict=tells):
        one.logps = logps[: len(one.tokens)]


@contextmanager
def _seeded(seed: int, place: int) -> Iterator[None]:
    """Torch's generators at a seed inside, and as they were before outside."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(np.random.SeedSequence([seed, place]).generate_state(1)[0]))
        yield


def _generation(manner: Manner) -> GenerationConfig:
    how = {"do_sample": False}
    if manner.temperature:
        how = {"do_sample": True, "temperature": manner.temperature, "top_k": 0, "top_p": 1.0}
    return GenerationConfig(
        **how,
        num_beams=1,
        repetition_penalty=1.0,
        max_new_tokens=manner.limits.max_new_tokens,
        eos_token_id=sorted(manner.limits.stop_ids),
        pad_token_id=manner.pad_token_id,
        use_cache=True,
    )


def _cut(one: Sampled, tokens: list[int], limits: Limits) -> None:
    at = next((index for index, token in enumerate(tokens) if token in limits.stop_ids), None)
    one.tokens = tokens if at is None else tokens[: at + 1]
    one.answer, one.finish = (tokens, "length") if at is None else (tokens[:at], "stop")
