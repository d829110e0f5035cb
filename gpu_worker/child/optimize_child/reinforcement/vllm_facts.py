"""What vLLM, once it is made, runs with: read from the engine itself, for what it was asked is another matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def engine_facts(llm: Any) -> dict[str, Any]:
    """The engine's context length, attention, cache, share of memory and way of computing.

    A version of vLLM that keeps one of them elsewhere says nothing of it: it is None, and the run goes on.
    """
    config = told(lambda: llm.llm_engine.vllm_config)
    return {
        "contextLength": told(lambda: config.model_config.max_model_len),
        "attentionBackends": told(lambda: attention_backends(llm)),
        "kvCache": {
            "dtype": told(lambda: str(config.cache_config.cache_dtype)),
            "blockSize": told(lambda: config.cache_config.block_size),
            "blocks": told(lambda: config.cache_config.num_gpu_blocks),
            "tokens": told(lambda: config.cache_config.block_size * config.cache_config.num_gpu_blocks),
        },
        "memoryShare": told(lambda: config.cache_config.gpu_memory_utilization),
        "eager": told(lambda: bool(config.model_config.enforce_eager)),
        "multimodalProfiling": told(lambda: profiles_media(config.model_config)),
    }


def attention_backends(llm: Any) -> list[str]:
    """The names of the kernels that its layers attend with, each once."""
    runner = llm.llm_engine.model_executor.driver_worker.worker.model_runner
    return sorted({group.backend.get_name() for groups in runner.attn_groups for group in groups})


def profiles_media(model_config: Any) -> bool:
    """Whether it set memory aside for media: of a model that reads some, where a prompt may hold any."""
    media = model_config.multimodal_config
    return media is not None and not media.skip_mm_profiling and any(
        media.get_limit_per_prompt(kind) for kind in ("image", "video", "audio"))


def told(read: Callable[[], Any]) -> Any:
    """What it says, or None where it keeps no such thing."""
    try:
        return read()
    except (AttributeError, KeyError, TypeError):
        return None
