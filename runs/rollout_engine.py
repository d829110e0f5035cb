"""Who samples a run's completions on this box: its settings, what is installed, and the device's memory, looked up."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.db.models import Min

from optimize_site.kernel.conf import setting
from optimize_site.kernel.job_packages import installed_version
from optimize_site.kernel.models import Device
from runs.memory import COMPUTE_BYTES, Memory, Shape
from runs.samplers import RolloutBox, Room, SamplerChoice, choose_sampler

GENERATION = "generation"


def rollout_box() -> RolloutBox:
    """What the box says of sampling."""
    python = str(setting("trainer.rollouts.vllm-python"))
    return RolloutBox(str(setting("trainer.rollouts.sampler")), installed_version("vllm", python=python), python,
                      float(setting("trainer.rollouts.memory-share")))


def chosen_sampler(config: Mapping[str, Any], execution: Mapping[str, Any], parts: Mapping[str, int | None],
                   shape: Shape | None) -> SamplerChoice:
    """Who samples a run whose parts of the device's memory were predicted so."""
    return choose_sampler(rollout_box(), config, _room(execution["deviceProfile"], parts, shape))


def with_engine(predicted: Memory, choice: SamplerChoice, execution: Mapping[str, Any]) -> Memory:
    """A prediction in which generation takes the share that vLLM is given."""
    device = _device(execution["deviceProfile"])[1]
    if choice.kind == "own" or device is None:
        return predicted
    share = round(choice.memory_share * device)
    return replace(predicted, parts={**predicted.parts, GENERATION: share})


def _room(profile: str, parts: Mapping[str, int | None], shape: Shape | None) -> Room:
    kind, device = _device(profile)
    sizes = [size for name, size in parts.items() if name != GENERATION]
    known = [size for size in sizes if size is not None]
    trainer = sum(known) if len(known) == len(sizes) else None
    if shape is None:
        return Room(kind, device, trainer, parts.get("weights"), None, None)
    number = shape.layers * COMPUTE_BYTES[kind]
    return Room(kind, device, trainer, parts.get("weights"), 2 * shape.key * number, shape.adapted_widths * number)


def kind_of(profile: str) -> str:
    """What memory is predicted for: `cpu` or `cuda`."""
    return _device(profile)[0]


def _device(profile: str) -> tuple[str, int | None]:
    """The kind of a profile's present devices, and the memory of the smallest; a processor's is the host's."""
    present = Device.objects.for_models().filter(is_present=True, profile=profile)
    least = present.values("kind").annotate(own=Min("memory_bytes"), host=Min("host_memory_bytes"))
    found = least.order_by("kind").first()
    if found is None:
        return "cpu" if profile == "cpu" else "cuda", None
    is_cpu = found["kind"] == "cpu"
    return "cpu" if is_cpu else "cuda", (found["host"] if is_cpu else found["own"]) or None
