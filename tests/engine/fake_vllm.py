"""A stand-in for vLLM's public API, no vLLM: it answers what the job asks of one, with the tiny model in this process.

`LLM`, `SamplingParams` and `LoRARequest` take what vLLM's take, and refuse what theirs would: an argument that is none
of theirs, an adapter's number used again for another folder. What samples is transformers, an adapter on top.
"""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

VERSION = "0.0.fake"
ARGUMENTS = {
    "model", "skip_tokenizer_init", "trust_remote_code", "generation_config", "load_format", "dtype", "max_model_len",
    "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "enable_prefix_caching", "enable_lora",
    "max_loras", "max_cpu_loras", "max_lora_rank", "logprobs_mode", "seed", "disable_log_stats",
    "limit_mm_per_prompt",
}  # fmt: skip


@dataclass
class SamplingParams:
    n: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    seed: int | None
    max_tokens: int
    stop_token_ids: list[int]
    ignore_eos: bool
    logprobs: int
    detokenize: bool


@dataclass(frozen=True)
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str


@dataclass
class LLM:
    """`adapter_of` says which adapter an update is sampled with: another one, for an engine that was handed none."""

    arguments: dict[str, Any]
    adapters: list[LoRARequest] = field(default_factory=list)
    asked: list[SamplingParams] = field(default_factory=list)
    adapter_of: Any = None

    def __post_init__(self) -> None:
        unknown = set(self.arguments) - ARGUMENTS
        if unknown:
            raise TypeError(f"unexpected arguments {sorted(unknown)}")
        dtype = getattr(torch, self.arguments["dtype"])
        self.model = AutoModelForCausalLM.from_pretrained(self.arguments["model"], dtype=dtype)

    def generate(self, prompts, sampling_params, *, lora_request, use_tqdm) -> list[Any]:
        if any(one.lora_int_id == lora_request.lora_int_id for one in self.adapters):
            raise ValueError(f"the adapter {lora_request.lora_int_id} is loaded")
        self.adapters.append(lora_request)
        self.asked += sampling_params
        folder = Path((self.adapter_of(lora_request) if self.adapter_of else lora_request).lora_path)
        model = PeftModel.from_pretrained(self.model, folder).eval()
        try:
            with torch.inference_mode():
                return [SimpleNamespace(outputs=[self._complete(model, prompt["prompt_token_ids"], how)])
                        for prompt, how in zip(prompts, sampling_params, strict=True)]  # fmt: skip
        finally:
            self.model = model.unload()

    def _complete(self, model: Any, prompt: list[int], how: SamplingParams) -> Any:
        draws = torch.Generator().manual_seed(how.seed)
        tokens, logprobs, cache, ids = [], [], None, torch.tensor([prompt])
        while len(tokens) < how.max_tokens and not (tokens and tokens[-1] in how.stop_token_ids):
            output = model(input_ids=ids, past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            logps = (output.logits[0, -1].float() / (how.temperature or 1)).log_softmax(-1)
            token = int(torch.multinomial(logps.exp(), 1, generator=draws) if how.temperature else logps.argmax())
            tokens.append(token)
            logprobs.append({token: SimpleNamespace(logprob=float(logps[token]))})
            ids = torch.tensor([[token]])
        finish = "stop" if tokens[-1] in how.stop_token_ids else "length"
        return SimpleNamespace(token_ids=tokens, logprobs=logprobs, finish_reason=finish)


class HereProcess:
    """In the place of the process beside the job: the same lines, answered in this one."""

    pid = 0
    made: list[Any] = []

    def __init__(self, command: Any, **_: Any) -> None:
        self.lost = 0

    def start(self, first: dict[str, Any]) -> dict[str, Any]:
        from optimize_child.reinforcement.vllm_engine import Engine

        self.engine = Engine(first)
        HereProcess.made.append(self.engine._llm)
        return {"ready": True, **self.engine.document()}

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        from optimize_child.reinforcement.vllm_engine import answer

        return answer(self.engine, request)

    def close(self) -> None:
        """Nothing was started."""

    def log_end(self) -> str:
        return ""


def install(monkeypatch: Any, **changes: Any) -> list[LLM]:
    """Have the job's sampler find this one; gives what it makes."""
    from optimize_child.reinforcement import samplers

    HereProcess.made = []
    vllm = SimpleNamespace(__version__=VERSION, SamplingParams=SamplingParams,
                           LLM=lambda **arguments: LLM(arguments, **changes))  # fmt: skip
    monkeypatch.setattr("optimize_child.reinforcement.vllm_engine.import_vllm", lambda: (vllm, LoRARequest))
    monkeypatch.setattr("optimize_child.reinforcement.vllm_engine.prepare_environment", lambda spec: None)
    monkeypatch.setattr(samplers, "LineProcess", HereProcess)
    return HereProcess.made
