"""Answering prompts greedily: what prompts share is computed once, and a slot that falls free takes the next prompt."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch

from optimize_child.answering.row_memory import NAME, Prefix, Prompts, RowMemory, Step
from optimize_child.training.compute_path import CAUSAL_DECODERS
from optimize_child.training.layouts import SHORTEST_SHARED_PREFIX
from optimize_child.training.segments import attention_of

SLOT_CHOICES = (8, 16, 32)
PREFILL_TOKENS = 4096
PLAIN_BATCH = 8


@dataclass
class Asked:
    """A prompt and the answer as far as it is known."""

    key: Any
    prompt: list[int]
    answer: list[int] = field(default_factory=list)
    finish: str | None = None


@dataclass(frozen=True)
class Limits:
    """When an answer ends: at one of these tokens, or after so many."""

    stop_ids: frozenset[int]
    max_new_tokens: int


def answer_all(
    model: Any, prompts: Sequence[Asked], limits: Limits, *, slots: int | None = None, pad_token_id: int = 0
) -> Iterator[Asked]:
    """Every prompt answered, each given back as soon as its answer is whole."""
    with torch.inference_mode():
        if model.config.model_type in CAUSAL_DECODERS:
            yield from Answering(model, prompts, limits, slots).run()
        else:
            yield from _generate(model, prompts, limits, pad_token_id)


class Waiting:
    """The prompts that wait, the shortest first. One is taken from its sequence when its turn comes, so that a sequence
    that reads its prompts from the disk holds none of those that wait."""

    def __init__(self, prompts: Sequence[Asked]) -> None:
        lengths = array("q", (len(asked.prompt) for asked in prompts))
        # Prompts of like length keep the rows of a batch alike; the order is the same each time.
        self._order = array("q", sorted(range(len(lengths)), key=lengths.__getitem__))
        self._prompts, self._next = prompts, 0
        self._back: list[Asked] = []

    def __len__(self) -> int:
        return len(self._back) + len(self._order) - self._next

    def take(self) -> Asked:
        """The prompt whose turn it is; it waits no more."""
        if self._back:
            return self._back.pop()
        self._next += 1
        return self._prompts[self._order[self._next - 1]]

    def put_back(self, asked: Asked) -> None:
        """Let a prompt wait again, before all others."""
        self._back.append(asked)


class Answering:
    """The loop for causal decoders."""

    def __init__(self, model: Any, prompts: Sequence[Asked], limits: Limits, slots: int | None) -> None:
        self.model, self.limits = model, limits
        self.waiting = Waiting(prompts)
        self.slots = slots
        self.layers = model.config.num_hidden_layers
        self.prefix = shared_prefix(asked.prompt for asked in prompts)
        self.steps = 0

    def run(self) -> Iterator[Asked]:
        if not self.waiting:
            return
        with attention_of(self.model, NAME):
            if self.slots is None:
                self.slots = min(max(SLOT_CHOICES), len(self.waiting))
                choose = True
            else:
                self.slots, choose = min(self.slots, len(self.waiting)), False
            memory = RowMemory(self.layers, self.slots, self.model.device)
            self._read_prefix(memory)
            rows: list[Asked | None] = [None] * self.slots
            yield from self._fill(memory, rows)
            if choose:
                self._choose_slots(memory, rows)
            while any(row is not None for row in rows):
                self._step(memory, rows)
                yield from self._collect(rows)
                if self._worth_changing(rows):
                    yield from self._change(memory, rows)

    # -- reading prompts ---------------------------------------------------------------------------------------------

    def _read_prefix(self, memory: RowMemory) -> None:
        if self.prefix:
            first = self.waiting.take()
            self.waiting.put_back(first)
            tokens = self._tensor(first.prompt[: self.prefix])
            memory.phase = Prefix()
            self._forward(memory, tokens, torch.arange(self.prefix), keep=torch.tensor([self.prefix - 1]))
            memory.prefix_tokens = self.prefix

    def _fill(self, memory: RowMemory, rows: list[Asked | None]) -> Iterator[Asked]:
        """Read waiting prompts into the free slots; the first token of each answer comes with it."""
        free = [slot for slot, row in enumerate(rows) if row is None]
        while free and self.waiting:
            taken, tokens = [], 0
            while free and self.waiting and tokens < PREFILL_TOKENS:
                asked = self.waiting.take()
                slot = free.pop(0)
                tokens += self._cost(asked, [rows[other] for other in taken])
                rows[slot] = asked
                taken.append(slot)
            self._take(rows, taken, self._choose(rows, taken, self._prefill(memory, rows, taken)))
        yield from self._collect(rows)

    def _cost(self, asked: Asked, beside: Sequence[Asked]) -> int:
        """How many tokens reading a prompt takes, where those of `beside` are read with it."""
        return len(asked.prompt) - self.prefix

    def _prefill(self, memory: RowMemory, rows: list[Asked | None], slots: list[int]) -> torch.Tensor:
        """Read the prompts of some slots; the logits of the token after each."""
        parts = [rows[slot].prompt[self.prefix :] for slot in slots]
        lengths = [len(part) for part in parts]
        memory.reserve(max(lengths))
        memory.phase = Prompts(memory, slots, lengths)
        positions = torch.cat([torch.arange(self.prefix, self.prefix + length) for length in lengths])
        ends = torch.tensor(lengths).cumsum(0) - 1
        logits = self._forward(memory, self._tensor([token for part in parts for token in part]), positions, keep=ends)
        memory.lengths[slots] = torch.tensor(lengths, device=memory.device)
        return logits[0]

    # -- one token each ----------------------------------------------------------------------------------------------

    def _step(self, memory: RowMemory, rows: list[Asked | None]) -> None:
        memory.reserve(int(memory.lengths.max()) + 1)
        memory.phase = Step(memory)
        # A free slot computes along with the others and is not read.
        last = [row.answer[-1] if row else 0 for row in rows]
        tokens = torch.tensor(last, device=self.model.device)[:, None]
        positions = (memory.lengths + self.prefix)[:, None]
        logits = self._forward(memory, tokens, positions, keep=1)
        memory.lengths = memory.lengths + 1
        slots = range(len(rows))
        self._take(rows, slots, self._choose(rows, slots, logits[:, -1]))
        self.steps += 1

    def _choose(self, rows: list[Asked | None], slots: Sequence[int], logits: torch.Tensor) -> list[int]:
        """The next token of each slot, from a row of logits for each."""
        return logits.argmax(-1).tolist()

    def _take(self, rows: list[Asked | None], slots: Sequence[int], tokens: Sequence[int]) -> None:
        for slot, token in zip(slots, tokens, strict=True):
            row = rows[slot]
            if row is None:
                continue
            if token in self.limits.stop_ids:
                row.finish = "stop"
                continue
            row.answer.append(token)
            if len(row.answer) >= self.limits.max_new_tokens:
                row.finish = "length"

    def _collect(self, rows: list[Asked | None]) -> Iterator[Asked]:
        for slot, row in enumerate(rows):
            if row is not None and row.finish:
                rows[slot] = None
                yield row

    # -- slots -------------------------------------------------------------------------------------------------------

    def _worth_changing(self, rows: list[Asked | None]) -> bool:
        """A quarter of the slots free: reading prompts, or moving rows together, pays from there."""
        free = sum(row is None for row in rows)
        return free >= max(1, len(rows) // 4)

    def _change(self, memory: RowMemory, rows: list[Asked | None]) -> Iterator[Asked]:
        """Give free slots to waiting prompts, or drop them when none waits."""
        if self.waiting and len(rows) <= self.slots:
            yield from self._fill(memory, rows)
            return
        kept = [slot for slot, row in enumerate(rows) if row is not None]
        memory.select(kept)
        rows[:] = [rows[slot] for slot in kept]

    def _choose_slots(self, memory: RowMemory, rows: list[Asked | None]) -> None:
        """Measure a token for 8, 16 and 32 rows, and go on with the count that answers most tokens a second.

        The rows that do not fit go back to the front of the queue and are read again.
        """
        rates: dict[int, float] = {}
        for count in [count for count in SLOT_CHOICES if count <= len(rows)] or [len(rows)]:
            rates[count] = count / self._seconds_a_step(memory, count)
        best = max(rates, key=rates.__getitem__)
        if best < len(rows):
            for row in reversed(rows[best:]):
                if row is not None:
                    row.answer.clear()
                    self.waiting.put_back(row)
            memory.select(range(best))
            rows[:] = rows[:best]
            self.slots = best

    def _seconds_a_step(self, memory: RowMemory, count: int) -> float:
        """The better of two trial steps over the first `count` rows; what they write is written over."""
        trial = RowMemory(self.layers, count, memory.device)
        trial.prefix, trial.prefix_tokens = memory.prefix, memory.prefix_tokens
        memory.reserve(int(memory.lengths.max()) + 1)
        trial.keys = [held[:count] for held in memory.keys]
        trial.values = [held[:count] for held in memory.values]
        trial.lengths = memory.lengths[:count]
        tokens = torch.zeros((count, 1), dtype=torch.long, device=self.model.device)
        best = float("inf")
        for _ in range(2):
            started = time.perf_counter()
            trial.phase = Step(trial)
            self._forward(trial, tokens, (trial.lengths + self.prefix)[:, None], keep=1)
            best = min(best, time.perf_counter() - started)
        return best

    def _tensor(self, tokens: Sequence[int]) -> torch.Tensor:
        return torch.tensor(tokens, device=self.model.device)[None]

    def _forward(self, memory: RowMemory, tokens: torch.Tensor, positions: torch.Tensor, *, keep: Any) -> torch.Tensor:
        device = self.model.device
        if positions.dim() == 1:
            positions = positions[None]
        output = self.model(
            input_ids=tokens, position_ids=positions.to(device), use_cache=False, logits_to_keep=keep, memory=memory
        )
        return output.logits


def shared_prefix(prompts: Iterable[list[int]]) -> int:
    """How many tokens all prompts begin with, leaving each at least one of its own; 0 where it is not worth a pass."""
    waiting = iter(prompts)
    first = next(waiting, None)
    second = next(waiting, None)
    if first is None or second is None:
        return 0
    common = len(first) - 1
    for prompt in chain([second], waiting):
        common = max(0, min(common, len(prompt) - 1))
        if prompt[:common] != first[:common]:
            common = next(at for at in range(common) if prompt[at] != first[at])
    return common if common >= SHORTEST_SHARED_PREFIX else 0


def _generate(model: Any, prompts: Sequence[Asked], limits: Limits, pad_token_id: int) -> Iterator[Asked]:
    """The library's own generation, for architectures whose attention is another one."""
    for start in range(0, len(prompts), PLAIN_BATCH):
        part = [prompts[at] for at in range(start, min(start + PLAIN_BATCH, len(prompts)))]
        width = max(len(asked.prompt) for asked in part)
        ids = torch.full((len(part), width), pad_token_id)
        mask = torch.zeros((len(part), width), dtype=torch.long)
        for at, asked in enumerate(part):
            ids[at, width - len(asked.prompt) :] = torch.tensor(asked.prompt)
            mask[at, width - len(asked.prompt) :] = 1
        output = model.generate(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            do_sample=False,
            num_beams=1,
            temperature=None,
            top_p=None,
            top_k=None,
            max_new_tokens=limits.max_new_tokens,
            eos_token_id=sorted(limits.stop_ids),
            pad_token_id=pad_token_id,
            use_cache=True,
        )
        for asked, tokens in zip(part, output[:, width:].tolist(), strict=True):
            yield _cut(asked, tokens, limits)


def _cut(asked: Asked, tokens: list[int], limits: Limits) -> Asked:
    at = next((index for index, token in enumerate(tokens) if token in limits.stop_ids), None)
    asked.answer, asked.finish = (tokens, "length") if at is None else (tokens[:at], "stop")
    return asked
