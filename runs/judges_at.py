"""Looks up what the judges of a resolved run would hold, and where they would stand."""

from collections.abc import Mapping, Sequence
from typing import Any

from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.judges import keeper
from optimize_site.kernel.models import Device
from registry.base_model_queries import base_model_state
from registry.models import Version
from runs import memory
from runs.judge_memory import JudgeMemory, Room, certain_of, judges_document, predict_judge, read_tokens
from runs.reinforcement import completions_a_step
from runs.resolve import Resolved
from runs.shapes import shape_at
from runs.text import spell_bytes


def judges_beside(resolved: Resolved, run_bytes: int | None) -> dict[str, Any]:
    """What the reward's judges hold, as it stands beside a prediction of `run_bytes` for the run itself; empty for a
    run without a judge, and where none finds a slot."""
    judges = _appointed(resolved)
    room = _room(resolved, len(judges)) if judges else None
    if room is None:
        return {}
    return {"judges": judges_document(_predicted(resolved, judges, room.kind), room, run_bytes)}


def no_memory_for_judges(resolved: Resolved) -> str:
    """Why the run and its judges cannot be held; empty where they can, as far as it is known."""
    judges = _appointed(resolved)
    room = _room(resolved, len(judges)) if judges else None
    if room is None:
        return ""
    return without_room(_predicted(resolved, judges, room.kind), room, _own_parts(resolved, room))


def _appointed(resolved: Resolved) -> dict[str, list[dict[str, Any]]]:
    """The terms' judges by the model that each is."""
    found: dict[str, list[dict[str, Any]]] = {}
    for term in resolved.references.get("reward") or []:
        if "judge" in term:
            found.setdefault(term["judge"]["modelId"], []).append(term["judge"])
    return found


def _room(resolved: Resolved, count: int) -> Room | None:
    execution = resolved.execution
    try:
        profile = keeper().check_room(count, beside=execution["deviceProfile"], devices=execution["gpus"])
    except OperationError:
        return None
    device = Device.objects.for_models().filter(profile=profile, is_present=True).order_by("memory_bytes").first()
    if device is None:
        return None
    kind = "cpu" if device.kind == "cpu" else "cuda"
    have = device.host_memory_bytes if kind == "cpu" else device.memory_bytes
    return Room(profile, kind, have, is_shared=kind == "cpu" and profile == execution["deviceProfile"])


def _predicted(resolved: Resolved, judges: Mapping[str, list[dict[str, Any]]], kind: str) -> list[JudgeMemory]:
    return [_judge(resolved, model_id, told, kind) for model_id, told in judges.items()]


def _judge(resolved: Resolved, model_id: str, told: list[dict[str, Any]], kind: str) -> JudgeMemory:
    state, version = base_model_state(told[0]["baseModel"]), Version.objects.get(pk=model_id)
    tokens = read_tokens(longest=int(resolved.config["maxSeqLength"]), context=state.context_length if state else None,
                         instructions=max((judge["instructions"] for judge in told), key=len),
                         answer=int(setting("trainer.judges.max-new-tokens")))
    adapter = sum(int(entry["bytes"]) for entry in version.objects_listing if entry["path"].endswith(".safetensors"))
    is_base = told[0]["model"] == (state.version.reference if state and state.version else None)
    return predict_judge(told[0]["model"], kind=kind, parameters=state.parameters if state else None,
                         shape=shape_at(state) if state else None, adapter=0 if is_base else adapter, tokens=tokens,
                         answers=completions_a_step(resolved.config))


def _own_parts(resolved: Resolved, room: Room) -> Mapping[str, int | None]:
    """What the run's own job holds, where it is held with its judges."""
    base = resolved.references.get("baseModel")
    state = base_model_state(base["repository"]) if base and room.is_shared else None
    if state is None:
        return {}
    return memory.predict(resolved.config, resolved.execution, kind=room.kind, parameters=state.parameters,
                          shape=shape_at(state), longest_row=None).parts


def without_room(judges: Sequence[JudgeMemory], room: Room, run_parts: Mapping[str, int | None]) -> str:
    """Why what the run and its judges hold for certain has no room; empty where it has, or where it is not known."""
    if not room.memory:
        return ""
    if room.kind != "cpu":
        large = next((judge for judge in judges if certain_of(judge.parts) > room.memory), None)
        return "" if large is None else (f"The judge {large.model} takes {spell_bytes(certain_of(large.parts))} before "
                                         f"it reads anything, and a device {room.profile} has "
                                         f"{spell_bytes(room.memory)}.")
    held = sum(certain_of(judge.parts) for judge in judges)
    own = certain_of(run_parts) if room.is_shared else 0
    if held + own <= room.memory:
        return ""
    beside = f" beside the {spell_bytes(own)} of the run" if own else ""
    names = " and ".join(judge.model for judge in judges)
    noun = "judge" if len(judges) == 1 else "judges"
    return (f"The reward's {noun} {names} would take {spell_bytes(held)}{beside} before anything is read, "
            f"and this machine has {spell_bytes(room.memory)}.")
