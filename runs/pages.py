"""What the run pages show, worked out from a run's row: its phases as a strip, how far it is, its settings. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from optimize_site.kernel.text import written_path
from optimize_site.kernel.words import state_word
from runs.setting_leaves import is_stated, setting_leaves
from runs.text import spell_bytes, spell_duration
from runs.wording import shown_path

STRIP = (
    ("Data", ("RESOLVING_DATASET",)),
    ("Base model", ("AWAITING_BASE_MODEL",)),
    ("Grader", ("DEPLOYING_GRADER", "AWAITING_GRADER")),
    ("Waiting", ("AWAITING_CAPACITY",)),
    ("Starting", ("STARTING_JOB", "QUEUED")),
    ("Preparing", ("PREPARING",)),
    ("Training", ("TRAINING",)),
    ("Paused", ("PAUSING", "PAUSED")),
    ("Recording", ("RECORDING", "CLEANING_UP")),
)
OPTIONAL = {"Grader", "Paused"}
ENDS = {"COMPLETED": "end-good", "FAILED": "end-bad", "CANCELLED": ""}
CURVES = (
    {"title": "Loss", "term": "loss", "names": "loss,validation_loss", "labels": "Training|Validation", "is_big": True},
    {"title": "Preference accuracy", "term": "preference accuracy", "names": "preference_accuracy",
     "labels": "Accuracy", "method": "dpo"},
    {"title": "Reward margin", "term": "reward margin", "names": "reward_margin", "labels": "Margin", "method": "dpo"},
    {"title": "Chosen and rejected rewards", "term": "answer rewards", "names": "reward_chosen,reward_rejected",
     "labels": "Chosen|Rejected", "method": "dpo"},
    {"title": "Learning rate", "term": "learning rate", "names": "learning_rate", "labels": "Learning rate"},
    {"title": "Gradient norm", "term": "gradient norm", "names": "grad_norm", "labels": "Gradient norm"},
    {"title": "Tokens a second", "term": "token", "names": "tokens_per_second", "labels": "Tokens a second"},
    {"title": "Peak memory", "term": "", "names": "peak_memory_bytes", "labels": "Memory", "unit": "bytes"},
)


def curves_of(method: str) -> list[dict[str, Any]]:
    """The curves of a run's page."""
    return [dict(curve) for curve in CURVES if curve.get("method", method) == method]


@dataclass(frozen=True)
class Step:
    """One part of the strip."""

    text: str
    seconds: float | None
    css: str
    detail: str = ""


def strip(phase: str, phase_millis: Mapping[str, int], since: datetime, now: datetime) -> list[Step]:
    """The phases in order with the time spent in each; the present one counts up to `now`."""
    spent = dict(phase_millis)
    if phase not in ENDS:
        spent[phase] = spent.get(phase, 0) + max(0, int((now - since).total_seconds() * 1000))
    parts = [_step(text, phases, phase, spent) for text, phases in STRIP
             if text not in OPTIONAL or any(name in spent for name in phases)]
    total = sum(spent.values()) / 1000
    end = Step(state_word(phase).text, total, ENDS[phase]) if phase in ENDS else Step("End", None, "")
    return [*parts, end]


def _step(text: str, phases: Sequence[str], phase: str, spent: Mapping[str, int]) -> Step:
    seconds = sum(spent.get(name, 0) for name in phases) / 1000 if any(name in spent for name in phases) else None
    return Step(text, seconds, "now" if phase in phases else "past" if seconds is not None else "",
                state_word(phase).text if phase in phases else "")


def share_of(phase: str, observed_step: int, total_steps: int | None, stage: Mapping[str, Any]) -> float | None:
    """How far the present part of the work is, 0 to 1: rows of a stage while preparing, updates while training."""
    if phase in {"QUEUED", "PREPARING"} and stage.get("total"):
        return min(1.0, float(stage.get("done") or 0) / float(stage["total"]))
    if phase in {"TRAINING", "PAUSING", "PAUSED", "RECORDING", "CLEANING_UP", "COMPLETED", "FAILED", "CANCELLED"}:
        return min(1.0, observed_step / total_steps) if total_steps else None
    return None


def settings_rows(config: Mapping[str, Any], execution: Mapping[str, Any],
                  stated: Sequence[str]) -> list[dict[str, Any]]:
    """Every setting by its path, with its value and whether the person stated it."""
    written = set(stated)
    return [{"path": shown_path(path), "full": written_path(path), "value": value,
             "is_stated": is_stated(path, written)}
            for group, values in (("config", config), ("execution", execution))
            for path, value in setting_leaves(values, (group,))]


def title_of(config_name: str, description: str, run_id: str) -> str:
    """What a run is called in lists: its configuration's name, the first line of its note, or its ID."""
    return config_name or (description.splitlines() or [""])[0][:80] or f"Run {run_id[:12]}"


def estimate_rows(estimates: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the plan says of updates, time, cost and memory: a label, the figure or None, its origin and its note."""
    memory = estimates["memory"]
    rows = [_estimate("Updates", "", estimates["steps"], lambda count: f"{count:,.0f}"),
            _estimate("Time", "", estimates["seconds"], lambda seconds: f"about {spell_duration(seconds)}"),
            _estimate("Cost", "", estimates["cost"], lambda amount: f"{amount:,.2f}")]
    for name, label in (("device", "Device memory"), ("host", "Host memory")):
        predicted = memory[name]
        if predicted is not None:
            whole = predicted | {"value": predicted["bytes"]}
            parts = [(part, spell_bytes(size)) for part, size in predicted["parts"].items() if size is not None]
            rows.append(_estimate(label, "peak memory", whole, spell_bytes) | {"parts": parts})
        if predicted is not None and predicted.get("judges"):
            rows.append(_judges_row(predicted["judges"]))
    measured = memory["measured"]
    if measured is not None:
        rows.append({"label": "Measured peak", "term": "", "text": spell_bytes(measured["bytes"]),
                     "source": "measured", "note": f"In the run {measured['runId'][:12]} of this recipe.",
                     "parts": [(part, spell_bytes(size)) for part, size in measured["parts"].items()]})
    return rows


def _judges_row(found: Mapping[str, Any]) -> dict[str, Any]:
    """What the reward's judges hold, each with its parts, and what they come to with the run that shares their memory.
    """
    whole = {"value": found["bytes"], "source": "computed" if found["bytes"] is not None else "unknown",
             "note": f"Held on {found['profile']} while the run trains."}
    if found["together"] is not None:
        there = f" of {spell_bytes(found['memory'])}" if found["memory"] else ""
        whole["note"] = f"With the run's own, {spell_bytes(found['together'])}{there}."
    several = len(found["models"]) > 1
    parts = [(f"{judge['model']}: {part}" if several else part, spell_bytes(size)) for judge in found["models"]
             for part, size in judge["parts"].items() if size]
    return _estimate("Judges" if several else "Judge", "judge", whole, spell_bytes) | {"parts": parts}


def memory_rows(predicted: Mapping[str, Any] | None, measured: Mapping[str, Any] | None) -> list[tuple[str, str, str]]:
    """Each part of a run's peak memory as it was predicted and as it was measured, the whole last."""
    foreseen = dict((predicted or {}).get("parts") or {}) | {"peak": (predicted or {}).get("bytes")}
    found = dict(measured["parts"]) | {"peak": measured["bytes"]} if measured else {}
    names = [name for name in dict.fromkeys([*foreseen, *found]) if name != "peak"]
    rows = [(name, foreseen.get(name), found.get(name)) for name in [*names, "peak"]]
    return [(name.capitalize(), *("–" if size is None else spell_bytes(size) for size in sizes))
            for name, *sizes in rows if any(size is not None for size in sizes)]


def _estimate(label: str, term: str, figure: Mapping[str, Any], spell: Callable[[Any], str]) -> dict[str, Any]:
    text = None if figure["value"] is None else spell(figure["value"])
    return {"label": label, "term": term, "text": text, "source": figure["source"], "note": figure["note"], "parts": []}
