"""Who samples a reinforcement run's completions: our own loop, the library's generation, or vLLM beside the job."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from peft import LoraConfig

from optimize_child.answering.sampling import Manner, Sampled, sample, sample_plainly
from optimize_child.failures import JobFailure
from optimize_child.line_process import LineProcess, Lost
from optimize_child.reinforcement.loss import MOST_WEIGHT
from optimize_child.saves.captured import adapter_config, adapter_weights, write_adapter

READY_SECONDS = 900.0
"""How long vLLM may load and compile before its first word."""
LEAVE_OUT = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUDA_VISIBLE_DEVICES")
"""Settings of the job's own allocator and device that are not vLLM's."""
LOST_FOR_GOOD = ("rollout_engine_lost", "rollout_engine_not_ready")
OWN = 'set trainer.rollouts.sampler = "own" in the box\'s settings.toml.'
HINT = f"Look at the job's vllm.log, or {OWN}"


class Sampler(Protocol):
    """Fills in completions with the policy as it is. `corrected` says that another engine's probabilities drew them, so
    that an update weighs them."""

    corrected: bool

    def sample(self, model: Any, asked: list[Sampled], manner: Manner, place: int, *, update: int) -> None: ...

    def document(self) -> dict[str, Any]: ...

    def runtime(self) -> dict[str, Any] | None:
        """What it really runs with; None for the trainer's own model, of which the trainer tells."""


class OwnSampler:
    """The trainer's model itself: with our loop, or `plainly` with the library's generation, which `tells` how likely
    its tokens were or does not."""

    corrected = False

    def __init__(self, plainly: bool, reason: str = "", *, tells: bool = False) -> None:
        self._plainly, self._reason, self._tells = plainly, reason, tells

    def sample(self, model: Any, asked: list[Sampled], manner: Manner, place: int, *, update: int) -> None:
        """Fill in every completion."""
        if self._plainly:
            sample_plainly(model, asked, manner, place, tells=self._tells)
        else:
            sample(model, asked, manner)

    def document(self) -> dict[str, Any]:
        how = {"kind": "own", "generation": "library" if self._plainly else "group"}
        return how | ({"reason": self._reason} if self._reason else {})

    def runtime(self) -> None:
        return None


@dataclass(frozen=True)
class EngineShape:
    """What vLLM lays itself out for: sequences of `length` tokens at most, `at_once` side by side, at a rank."""

    length: int
    at_once: int
    rank: int
    memory_share: float
    device: str
    uuids: Sequence[str] = ()

    def spec(self, model: Path) -> dict[str, Any]:
        """The first line that its process reads."""
        dtype = "bfloat16" if self.device == "cuda" else "float32"
        return {"model": str(model), "parent": os.getpid(), "dtype": dtype, "length": self.length,
                "at_once": self.at_once, "rank": self.rank, "memory_share": self.memory_share,
                "uuids": list(self.uuids)}  # fmt: skip


class VllmSampler:
    """vLLM in a process beside the job, kept for all of the run's updates. Before each of them it is handed the adapter
    as it is, under a name of its own."""

    corrected = True

    def __init__(
        self,
        shape: EngineShape,
        *,
        base: Path,
        base_model: dict[str, Any],
        attempt: Path,
        leave_if_asked: Callable[[], None],
        python: str = "",
    ) -> None:
        self._shape, self._base, self._base_model = shape, base, base_model
        self._folder = attempt / "sampler"
        command = [python or sys.executable, "-P", "-m", "optimize_child.reinforcement.vllm_engine"]
        self._process = LineProcess(
            command, cwd=attempt, environment=_environment(), log=attempt / "vllm.log", ready_seconds=READY_SECONDS,
            leave_if_asked=leave_if_asked,
        )  # fmt: skip
        self._version = ""
        self._facts: dict[str, Any] = {}
        self._number = 0

    @property
    def pid(self) -> int | None:
        """The engine's process."""
        return self._process.pid

    def start(self) -> None:
        """Load the base model into vLLM. Raises JobFailure `rollout_engine_not_ready` with vLLM's own reason."""
        try:
            answer = self._process.start(self._shape.spec(self._base))
        except OSError as error:
            raise self._not_ready(f"it could not be started ({error})") from error
        except Lost as lost:
            raise self._not_ready(f"it ended before it was ready ({lost})") from lost
        if not answer.get("ready"):
            raise self._not_ready(str(answer.get("reason", "it gave no reason")).rstrip("."))
        self._version = str(answer["version"])
        self._facts = answer["runtime"]

    def sample(self, model: Any, asked: list[Sampled], manner: Manner, place: int, *, update: int) -> None:
        """Fill in every completion, each drawn from a seed of its own. Raises JobFailure `rollout_engine_lost` where
        vLLM ends twice over the same completions."""
        self._number += 1
        adapter = self._write_adapter(model, made_by=update - 1)
        request = {"id": self._number, "adapter": adapter, **_request(asked, manner, place)}
        for one, found in zip(asked, self._ask(request), strict=True):
            _fill(one, found, manner)
        shutil.rmtree(self._folder)

    def document(self) -> dict[str, Any]:
        return {"kind": "vllm", "version": self._version, "memoryShare": self._shape.memory_share,
                "atOnce": self._shape.at_once, "repeats": "not bit for bit",
                "correction": {"kind": "sequence_mask", "most": MOST_WEIGHT}}  # fmt: skip

    def runtime(self) -> dict[str, Any]:
        return {"engine": "vllm", "version": self._version, **self._facts}

    def close(self) -> None:
        """Let it end; its memory is free when this returns."""
        self._process.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write_adapter(self, model: Any, *, made_by: int) -> dict[str, Any]:
        """The adapter as the update before made it; a run's first finds it as it was begun with, which is update 0."""
        shutil.rmtree(self._folder, ignore_errors=True)
        folder = self._folder / f"update-{self._number}"
        folder.mkdir(parents=True)
        write_adapter(adapter_weights(model, step=made_by), adapter_config(model, self._base_model), folder)
        return {"name": folder.name, "number": self._number, "folder": str(folder)}

    def _ask(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            return self._answer(request)
        except Lost:
            self._process.close()
            self.start()
        try:
            return self._answer(request)
        except Lost as lost:
            raise JobFailure(
                "rollout_engine_lost",
                f"vLLM could not sample the same {len(request['asked'])} completions twice ({lost}).",
                hint=HINT,
                log=self._process.log_end(),
            ) from lost

    def _answer(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        answer = self._process.ask(request)
        found = answer.get("completions")
        if answer.get("id") != request["id"] or not isinstance(found, list) or len(found) != len(request["asked"]):
            raise Lost(str(answer.get("reason", "it answered something else")))
        return found

    def _not_ready(self, reason: str) -> JobFailure:
        return not_ready(reason, HINT, log=self._process.log_end())


class UntilLost:
    """vLLM for as long as it is there. From the update on at which it is lost for good, `own` samples, made with the
    reason; `tell` is told of it then."""

    def __init__(
        self, engine: VllmSampler, *, own: Callable[[str], OwnSampler], tell: Callable[[JobFailure, int], None]
    ) -> None:
        self._engine, self._make_own, self._tell = engine, own, tell
        self._own: OwnSampler | None = None
        self._since = 0

    @property
    def corrected(self) -> bool:
        return self._own is None

    def sample(self, model: Any, asked: list[Sampled], manner: Manner, place: int, *, update: int) -> None:
        """Fill in every completion, with whichever samples now."""
        if self._own is None:
            try:
                self._engine.sample(model, asked, manner, place, update=update)
                return
            except JobFailure as failure:
                if failure.code not in LOST_FOR_GOOD:
                    raise
                self._own = self._give_up(failure, update)
                self._tell(failure, update)
        self._own.sample(model, asked, manner, place, update=update)

    def _give_up(self, failure: JobFailure, update: int) -> OwnSampler:
        self._engine.close()
        self._since = update
        return self._make_own(failure.reason)

    def document(self) -> dict[str, Any]:
        if self._own is None:
            return self._engine.document()
        repeats = f"not bit for bit before update {self._since}"
        return self._own.document() | {"since": self._since, "repeats": repeats, "before": self._engine.document()}

    def runtime(self) -> dict[str, Any] | None:
        return self._engine.runtime() if self._own is None else None


def refuse_adapter(lora: LoraConfig) -> None:
    """Raises JobFailure `rollout_engine_not_ready` for an adapter to go on from that vLLM would compute otherwise."""
    against = ""
    if lora.lora_dropout:
        against = "has dropout, with which the trainer computes and vLLM does not"
    elif lora.rank_pattern or lora.alpha_pattern:
        against = "has a rank or an alpha of its own for some modules, where vLLM takes one for all"
    if against:
        raise not_ready(f"the adapter it goes on from {against}", f"Go on from another adapter, or {OWN}")


def not_ready(reason: str, hint: str, **evidence: Any) -> JobFailure:
    return JobFailure("rollout_engine_not_ready", f"vLLM cannot sample for this run: {reason}.", hint=hint, **evidence)


def _environment() -> dict[str, str]:
    """The job's own, less what is set for its allocator; the package lies where the job found it."""
    package = str(Path(__file__).resolve().parents[2])
    return {**{name: value for name, value in os.environ.items() if name not in LEAVE_OUT}, "PYTHONPATH": package}


def _request(asked: Sequence[Sampled], manner: Manner, place: int) -> dict[str, Any]:
    prompts = {one.group: one.prompt for one in asked}
    seeds = [[one.group, manner.seed_of(place, *one.key)] for one in asked]
    return {
        "prompts": list(prompts.values()),
        "asked": seeds,
        "temperature": manner.temperature,
        "max_tokens": manner.limits.max_new_tokens,
        "stop_ids": sorted(manner.limits.stop_ids),
    }


def _fill(one: Sampled, found: dict[str, Any], manner: Manner) -> None:
    """What vLLM says of a completion, in our terms: the token it ended at is sampled, and no part of the answer."""
    one.tokens, one.logps = found["tokens"], found["logps"]
    is_whole = bool(one.tokens) and one.tokens[-1] in manner.limits.stop_ids
    one.answer, one.finish = (one.tokens[:-1], "stop") if is_whole else (one.tokens, "length")
