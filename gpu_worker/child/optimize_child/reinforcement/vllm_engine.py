"""vLLM in a process of its own: told once what to load, asked for completions, gone when its job is.

Run as `python -P -m optimize_child.reinforcement.vllm_engine` by the interpreter that has vLLM, which need not be the
job's. The engine computes in this process alone, so that nothing is left when it ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, BinaryIO

from optimize_child.reinforcement.vllm_facts import engine_facts

PR_SET_PDEATHSIG = 1
RANKS = (8, 16, 32, 64, 128, 256)
"""The ranks vLLM lays its buffers out for."""
TOKENS_AT_ONCE = 4096
"""Of prompts read and completions gone on with in one pass; vLLM sets room aside for so many."""


NOTHING_BUT_TEXT = {"image": 0, "video": 0, "audio": 0}
"""How many of each a prompt may hold. Where it is none of all that a model reads beside text, vLLM loads no tower."""


def main() -> int:
    """Load what the first line says, answer each line after it, leave at the end of the input."""
    answers = take_standard_output()
    spec = json.loads(sys.stdin.readline())
    end_with(spec["parent"])
    try:
        engine = Engine(spec)
    except BaseException as error:
        say(answers, {"ready": False, **refusal(error)})
        return 1
    say(answers, {"ready": True, **engine.document()})
    for line in sys.stdin:
        say(answers, answer(engine, json.loads(line)))
    return 0


def take_standard_output() -> BinaryIO:
    """Standard output for our lines alone: whatever a library prints goes where its errors go."""
    ours = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return ours


def end_with(parent: int) -> None:
    """The kernel ends this process when the one that started it ends, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def say(answers: BinaryIO, body: dict[str, Any]) -> None:
    answers.write(json.dumps(body).encode() + b"\n")
    answers.flush()


def answer(engine: Engine, request: dict[str, Any]) -> dict[str, Any]:
    """The completions that were asked for, or why there are none."""
    try:
        return {"id": request["id"], "completions": engine.complete(request)}
    except Exception as error:
        return {"id": request["id"], **refusal(error)}


def refusal(error: BaseException) -> dict[str, Any]:
    """What is said of an error; the whole of it goes to the log."""
    traceback.print_exc()
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return {"reason": f"{type(error).__name__}: {lines[0] if lines else 'no reason was given'}"[:500]}


class Engine:
    """vLLM over one base model, with one adapter at a time."""

    def __init__(self, spec: dict[str, Any]) -> None:
        prepare_environment(spec)
        self._vllm, self._request = import_vllm()
        self._llm = self._vllm.LLM(**engine_arguments(spec))

    def document(self) -> dict[str, Any]:
        return {"version": self._vllm.__version__, "runtime": engine_facts(self._llm)}

    def complete(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """A completion for each of `asked`, in order: the place of its prompt, and the seed it is drawn from."""
        adapter = request["adapter"]
        lora = self._request(lora_name=adapter["name"], lora_int_id=adapter["number"], lora_path=adapter["folder"])
        prompts = [{"prompt_token_ids": request["prompts"][at]} for at, _ in request["asked"]]
        how = [self._parameters(request, seed) for _, seed in request["asked"]]
        outputs = self._llm.generate(prompts, how, lora_request=lora, use_tqdm=False)
        return [completion_of(output.outputs[0]) for output in outputs]

    def _parameters(self, request: dict[str, Any], seed: int | None) -> Any:
        """The whole distribution at a temperature, and an end at our tokens alone; the model's own are among them."""
        return self._vllm.SamplingParams(
            n=1,
            temperature=request["temperature"],
            top_p=1.0,
            top_k=0,
            min_p=0.0,
            repetition_penalty=1.0,
            seed=seed,
            max_tokens=request["max_tokens"],
            stop_token_ids=request["stop_ids"],
            ignore_eos=True,
            logprobs=0,
            detokenize=False,
        )


def import_vllm() -> tuple[Any, Any]:
    """vLLM, and its request for an adapter."""
    import vllm
    from vllm.lora.request import LoRARequest

    return vllm, LoRARequest


def completion_of(output: Any) -> dict[str, Any]:
    """One completion's tokens, the log-probability of each where it was drawn, and why it ended."""
    tokens = list(output.token_ids)
    logps = [found[token].logprob for token, found in zip(tokens, output.logprobs, strict=True)]
    return {"tokens": tokens, "logps": logps, "finish": output.finish_reason}


def engine_arguments(spec: dict[str, Any]) -> dict[str, Any]:
    """What vLLM is made with. Log-probabilities are those of the distribution that is drawn from, temperature and all.

    The tokens that one prompt shares with another are read once (prefix caching); an adapter of another name shares
    none with the one before it. Prompts are text, also for a model that reads more.
    """
    more = {"limit_mm_per_prompt": NOTHING_BUT_TEXT} if reads_images(spec["model"]) else {}
    return more | {
        "model": spec["model"],
        "skip_tokenizer_init": True,
        "trust_remote_code": False,
        "generation_config": "vllm",
        "load_format": "safetensors",
        "dtype": spec["dtype"],
        "max_model_len": spec["length"],
        "max_num_seqs": spec["at_once"],
        "max_num_batched_tokens": max(TOKENS_AT_ONCE, spec["length"]),
        "gpu_memory_utilization": spec["memory_share"],
        "enable_prefix_caching": True,
        "enable_lora": True,
        "max_loras": 1,
        "max_cpu_loras": 1,
        "max_lora_rank": next(rank for rank in RANKS if rank >= spec["rank"]),
        "logprobs_mode": "processed_logprobs",
        "seed": 0,
        "disable_log_stats": True,
    }


def reads_images(model: str) -> bool:
    """As its configuration says; of one that cannot be read, vLLM says what is wrong with it."""
    try:
        return "vision_config" in json.loads((Path(model) / "config.json").read_bytes())
    except (OSError, ValueError):
        return False


def prepare_environment(spec: dict[str, Any]) -> None:
    """Before vLLM is imported: it computes in this process, calls nobody, and sees the job's device by a number, since
    it takes no other name for one."""
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
                   "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}  # fmt: skip
    if spec["uuids"]:
        os.environ |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": numbers_of(spec["uuids"])}


def numbers_of(uuids: list[str]) -> str:
    """The devices' numbers in the order of the bus. Raises KeyError for one that the driver does not list."""
    query = ["nvidia-smi", "--query-gpu=index,uuid", "--format=csv,noheader"]
    listed = subprocess.run(query, check=True, capture_output=True, text=True, timeout=60).stdout
    numbers = {uuid.strip(): number.strip() for number, uuid in (line.split(",", 1) for line in listed.splitlines())}
    return ",".join(numbers[uuid] for uuid in uuids)


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    # Nothing is left to save, and tearing down a device's library can hang.
    os._exit(status)
