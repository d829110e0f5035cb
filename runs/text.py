"""A run's own documents as lines for people, the same words in every command; lists of runs and of what belongs to one
are `table_text`. Pure: documents in, rows out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from optimize_site.kernel import clock
from optimize_site.kernel.text import written_path
from runs.analysed_text import analysed_rows
from runs.lengths_text import check_words
from runs.phases import title
from runs.reinforcement import rollout_words
from runs.reward import reward_words
from runs.setting_leaves import is_stated, setting_leaves
from runs.smoke import REPRODUCING
from runs.smoke import words as smoke_words

Row = tuple[str, Any]
INSTRUCTIONS_SHOWN = 100
"""Characters of a judge's instructions in a line."""


def spell_duration(seconds: float | None) -> str:
    """Seconds as people say them: `41s`, `3m 20s`, `2h 5m`."""
    if seconds is None:
        return "—"
    if seconds < 60:
        return f"{seconds:.0f}s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m" if minutes else f"{hours}h"


def spell_bytes(count: int) -> str:
    """A size in the largest binary unit that leaves it above one."""
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def progress_words(document: Mapping[str, Any]) -> str:
    """`120/120 steps (100%), loss 0.1960`, or the stage before the first step and after a smoke check's last."""
    progress = document["progress"]
    stage = progress["stage"]
    if stage and (document["phase"] in {"STARTING_JOB", "QUEUED", "PREPARING"} or stage["name"] == REPRODUCING):
        return _stage_words(stage)
    if progress["waitReason"]:
        return str(progress["waitReason"])
    total = progress["totalSteps"]
    words = f"{progress['step']}/{total} steps ({progress['share']:.0%})" if total else f"{progress['step']} steps"
    if document["lastFigure"]:
        words += f", {last_words(document)}"
    if progress["etaSeconds"] is not None:
        words += f", about {spell_duration(progress['etaSeconds'])} left"
    return words


def last_words(document: Mapping[str, Any]) -> str | None:
    """`loss 0.1960`, `reward 0.7000`: the newest value of what a run is listed by; None before there is one."""
    last = document["lastFigure"]
    return f"{last['name']} {last['value']:.4f}" if last else None


def _stage_words(stage: Mapping[str, Any]) -> str:
    if stage.get("total"):
        return f"{stage['name']} {stage.get('done') or 0:,} of {stage['total']:,}"
    return str(stage["name"])


def status_line(document: Mapping[str, Any]) -> str:
    """One line of a wait."""
    ending = " (cancelling)" if document["isCancelling"] else ""
    words = progress_words(document) if document["endedAt"] is None else ""
    return f"{title(document['phase'])}{ending}{f': {words}' if words else ''}"


def pause_line(document: Mapping[str, Any]) -> str:
    """What became of a pause."""
    pause = document["pause"]
    if pause is None:
        return status_line(document)
    if pause["state"] == "requested":
        already = "" if document.get("isNew", True) else "already "
        return f"{title(document['phase'])}: {already}pausing with --checkpoint {pause['checkpoint']}"
    step = "from the base model" if pause["savedStep"] is None else f"from update {pause['savedStep']}"
    return f"Paused; it goes on {step}. {pause['reason']}".rstrip()


def state_rows(run: Mapping[str, Any]) -> list[Row]:
    """What the run is and how far."""
    return [
        ("Run", run["runId"]), ("Workload", run["workload"] + (" (archived)" if run["isArchived"] else "")),
        ("Configuration", run["configName"] or None), ("Description", run["description"] or None),
        ("Method", run["method"].upper()), ("Base model", run["baseModel"]), ("Dataset", _dataset(run, "dataset")),
        ("Validation", _dataset(run, "validationDataset")), ("Phase", title(run["phase"])),
        ("Progress", progress_words(run)), ("Saved", _saved(run)), ("Saves", _saves(run)),
        ("Stored", f"{spell_bytes(run['storedBytes'])} of saves" if run["storedBytes"] else None),
        ("Resumed", _resumed(run)),
        ("Branched from", _branched(run)), ("Restore", _restored(run)),
        ("Pause", pause_line(run) if run["pause"] else None),
        ("Pauses at", f"update {run['pauseAtStep']}" if run["pauseAtStep"] else None),
        ("Lengths", check_words(run["lengthCheck"])), ("Smoke check", smoke_words(run["smoke"])),
        ("Reward", reward_words(run["config"], run["references"])), ("Starts from", _warm_start(run)),
        *(("Judge", judge_words(term["judge"])) for term in run["references"].get("reward") or () if "judge" in term),
        *(_failure_rows(run) if run["failureReason"] else ()),
        *(("Warning", warning["message"]) for warning in run["warnings"]),
    ]


def _warm_start(run: Mapping[str, Any]) -> str | None:
    start = run["references"].get("warmStart")
    return f"the adapter {start['reference']}" if start else None


def judge_words(judge: Mapping[str, Any]) -> str:
    """A reward's judge, what it is told and where that comes from."""
    told = " ".join(judge["instructions"].split())
    shown = told if len(told) <= INSTRUCTIONS_SHOWN else told[:INSTRUCTIONS_SHOWN - 1] + "…"
    return f"{judge['model']}, told ({judge['instructionsSource']}): {shown}"


def _failure_rows(run: Mapping[str, Any]) -> Iterator[Row]:
    """Why it failed: the sentence, its code, what to do, and the evidence a line each."""
    yield from (("Failure", _first_line(run["failureReason"])), ("Code", run["failureCode"]),
                ("To do", run["failureHint"]))
    for path, value in leaves(run["failureEvidence"] or {}, ""):
        first, *others = str(value).splitlines() or [""]
        yield "Evidence", f"{path}: {first}"
        yield from (("", line) for line in others)


def result_rows(run: Mapping[str, Any]) -> list[Row]:
    """What it has learned."""
    loss, validation = run["loss"], run["validation"]
    return [
        ("Model", f"{run['model']} ({run['modelId'][:12]})" if run["model"] else None),
        ("Validation loss", _validation(validation)),
        ("Training loss", f"{loss['first']:.4f} → {loss['last']:.4f} (mean {loss['mean']:.4f})" if loss else None),
        *_preference(run.get("preference")),
        ("Data fit", _data_fit(run["dataFit"])), ("Memory", measured_words(run["memory"]["measured"])),
        ("Predicted", memory_words(run["memory"]["predicted"])),
        ("Judges", judges_words(run["memory"]["predicted"])), ("Start checks", _checks(run["checks"])),
        ("Throughput", f"{run['tokensPerSecond']:,.0f} tokens per second per device, the mean over its steps"
         if run["tokensPerSecond"] else None),
    ]


def _preference(found: Mapping[str, Any] | None) -> list[Row]:
    if not found or found["step"] is None:
        return []
    loss = found["loss"]
    return [("Preference accuracy", f"{found['accuracy']:.1%} of the pairs of update {found['step']}"),
            ("Reward margin", f"{found['margin']:.4f}"),
            ("Preference loss", preference_loss(loss) if loss else None)]


def preference_loss(loss: Mapping[str, Any]) -> str:
    """`sigmoid at beta 0.1, one pair at a time`."""
    return f"{loss['kind']} at beta {loss['beta']:g}, {loss['how']}"


def cost_rows(run: Mapping[str, Any]) -> list[Row]:
    """What it took."""
    cost = run["cost"]
    estimate = " (estimate)" if cost["isEstimate"] else ""
    rate = cost["ratePerDeviceHour"]
    amount = f", {cost['amount']:.2f} at {rate:g} a device hour" if rate else ""
    examples = (run["references"].get("dataset") or {}).get("numExamples")
    over = f" over {examples} examples" if examples else ""
    return [("Device", f"{cost['deviceSeconds']:.1f} seconds{over}{amount}{estimate}"),
            ("Duration", _duration(run)), ("Attempts", len(run["attempts"]) or None)]


def settings_rows(run: Mapping[str, Any]) -> list[Row]:
    """Every setting, in the descriptor's order and by its groups; those the person wrote are marked."""
    stated, sampled = set(run["stated"]), rollout_words(run["config"])
    return [*([("Rollouts", sampled)] if sampled else []),
            *((_short(written_path(path)), spell_value(value) + (" (stated)" if is_stated(path, stated) else ""))
              for group in ("config", "execution") for path, value in setting_leaves(run[group], (group,)))]


def _short(path: str) -> str:
    return path.removeprefix("config.").removeprefix("hyperparams.").removeprefix("rlHyperparams.")


def dry_run_rows(document: Mapping[str, Any]) -> list[Row]:
    """The verdict of a dry run."""
    return [
        ("Valid", "yes" if document["valid"] else "no"), ("Configuration", document["configHash"]),
        ("Smoke check", smoke_words(document["resolved"]["smoke"])),
        *(("Warning", warning["message"]) for warning in document["warnings"]),
    ]


def estimate_rows(estimates: Mapping[str, Any]) -> list[Row]:
    """What the run would take, each figure with its origin; what cannot be told says why."""
    memory = estimates["memory"]
    return [
        ("Updates", _estimate(estimates["steps"], lambda steps: f"{steps:,.0f}")),
        ("Time", _estimate(estimates["seconds"], lambda seconds: f"about {spell_duration(seconds)}")),
        ("Cost", _estimate(estimates["cost"], lambda cost: f"{cost:.2f}")),
        ("Device memory", memory_words(memory["device"])), ("Host memory", memory_words(memory["host"])),
        ("Judges", judges_words(memory["device"]) or judges_words(memory["host"])),
        ("Measured peak", f"{measured_words(memory['measured'])} in the run {memory['measured']['runId'][:12]} of "
         "this recipe" if memory["measured"] else None)]


def _estimate(figure: Mapping[str, Any], spell: Callable[[float], str]) -> str:
    said = "unknown" if figure["value"] is None else f"{spell(figure['value'])} ({figure['source']})"
    return f"{said}: {figure['note']}"


def measured_words(measured: Mapping[str, Any] | None) -> str | None:
    """A measured peak, its parts where told, and its update: `2.1 GiB = weights 0.5 GiB + … at update 3`."""
    if measured is None:
        return None
    parts = " + ".join(f"{name} {spell_bytes(size)}" for name, size in measured["parts"].items())
    return f"{spell_bytes(measured['bytes'])}{f' = {parts}' if parts else ''} at update {measured['step']}"


def memory_words(predicted: Mapping[str, Any] | None) -> str | None:
    """A predicted peak and its parts: `2.6 GiB (computed) = weights 0.5 GiB + adapter 9.4 MiB + …`."""
    if predicted is None:
        return None
    told = [f"{name} {spell_bytes(size)}" for name, size in predicted["parts"].items() if size is not None]
    parts = f"{' + '.join(told)}. " if told else ""
    if predicted["bytes"] is None:
        return f"unknown: {parts}{predicted['note']}"
    return f"{spell_bytes(predicted['bytes'])} ({predicted['source']}) = {parts}{predicted['note']}"


def judges_words(predicted: Mapping[str, Any] | None) -> str | None:
    """`the judge acme/tiny 0.9 GiB (weights 0.5 GiB + …), together 1.8 GiB of 24.0 GiB`; None without a judge."""
    found = (predicted or {}).get("judges")
    if not found:
        return None
    said = "; ".join(_judge_words(judge) for judge in found["models"])
    where = f"on {found['profile']}, which the run shares" if found["isShared"] else f"on {found['profile']}"
    together = "" if found["together"] is None else f", together {spell_bytes(found['together'])}" + (
        f" of {spell_bytes(found['memory'])}" if found["memory"] else "")
    return f"{said} {where}{together}"


def _judge_words(judge: Mapping[str, Any]) -> str:
    parts = " + ".join(f"{name} {spell_bytes(size)}" for name, size in judge["parts"].items() if size)
    return f"{judge['model']} {'unknown' if judge['bytes'] is None else spell_bytes(judge['bytes'])} ({parts})"


def diagnostics_rows(found: Mapping[str, Any] | None) -> list[Row]:
    """What the dataset looks like; how much was read comes before what was found."""
    if found is None:
        return []
    shapes = ", ".join(f"{shape['rows']} × {shape['roles']}" for shape in found["shapes"][:3])
    first = ", ".join(f"row {pair['position']} = row {pair['sameAs']}" for pair in found["duplicates"]["first"][:3])
    duplicates = found["duplicates"]["rows"]
    return [("Read", found["coverage"]["note"] or f"all {found['coverage']['read']:,} examples"),
            ("Duplicates", f"{duplicates} ({first})" if duplicates else "none"), ("Shapes", shapes or None),
            ("Offer tools", found["toolRows"] or None),
            *analysed_rows(found["analysis"]), *(("Leakage", leak_words(leak)) for leak in found["leakage"])]


def leak_words(leak: Mapping[str, Any]) -> str:
    """How many rows to train on ask what a row to judge by asks, which ones, and how many were compared."""
    judged, said = " and ".join(leak["as"]), [*_leaked(leak, "exact", ""), *_leaked(leak, "near", "nearly ")]
    read = f" {leak['coverage']['note']}" if leak["coverage"]["note"] else ""
    if not said:
        return f"No training row asks what a row of {leak['evaluation']} ({judged}) asks.{read}"
    return f"{'; '.join(said)}. Figures on the {judged} data would flatter the model.{read}"


def leaks_anything(leak: Mapping[str, Any]) -> bool:
    """Whether a row to train on asks what a row to judge by asks."""
    return bool(leak["exact"]["rows"] or leak["near"]["rows"])


def _leaked(leak: Mapping[str, Any], kind: str, nearly: str) -> Iterator[str]:
    found, mark = leak[kind], "≈" if nearly else "="
    if found["rows"]:
        first = [f"row {pair['position']:,} {mark} {pair['evaluationPosition']:,}" for pair in found["first"][:5]]
        asks = "training row asks" if found["rows"] == 1 else "training rows ask"
        places = ", ".join(first + ["…"] * (found["rows"] > len(first)))
        yield f"{found['rows']:,} {asks} {nearly}what a row of {leak['evaluation']} asks ({places})"


def leaves(node: Any, path: str) -> Iterable[tuple[str, Any]]:
    """Every value of a document with its dotted path below `path`."""
    if not isinstance(node, Mapping):
        yield path, node
        return
    for name, value in node.items():
        yield from leaves(value, f"{path}.{name}")


def spell_value(value: Any) -> str:
    """A setting's value as people write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(spell_value(item) for item in value)
    return str(value)


def _dataset(run: Mapping[str, Any], name: str) -> str | None:
    reference = run["references"].get(name)
    return f"{reference['reference']} — {reference['numExamples']} example(s)" if reference else None


def _saved(run: Mapping[str, Any]) -> str | None:
    if run["savedStep"] is None:
        return None
    behind = run["observedStep"] - run["savedStep"]
    return f"step {run['savedStep']} ({'latest reported step' if behind <= 0 else f'{behind} behind the latest step'})"


def _saves(run: Mapping[str, Any]) -> str | None:
    """What becomes of saves that are not written at once."""
    waiting, skipped = run["savesWaiting"], run["savesSkipped"]
    words = [f"{waiting} waiting to be written"] * bool(waiting)
    words += [f"{skipped} skipped because newer ones came"] * bool(skipped)
    return ", ".join(words) or None


def _branched(run: Mapping[str, Any]) -> str | None:
    restore = run["restore"]
    return f"run {run['parentRunId'][:12]} at step {restore['step']}" if restore else None


def _restored(run: Mapping[str, Any]) -> str | None:
    restore = run["restore"]
    return f"{restore['mode']}. {restore['reason']}" if restore else None


def _resumed(run: Mapping[str, Any]) -> str | None:
    attempts = run["attempts"]
    if len(attempts) < 2:
        return None
    step = attempts[-1]["resumedStep"]
    return "no save was left; from the base model" if step is None else f"from step {step}, with its optimizer state"


def _validation(reading: Mapping[str, Any] | None) -> str | None:
    if not reading or reading["loss"] is None:
        return None
    perplexity = f" (perplexity {reading['perplexity']:.2f})" if reading["perplexity"] is not None else ""
    return f"{reading['loss']:.4f}{perplexity}"


def _data_fit(fit: Mapping[str, Any] | None) -> str | None:
    if fit is None:
        return None
    parts = [f"{fit['rows']:,} rows", f"longest {fit['longest']:,} tokens",
             f"{fit['trainedTokens']:,} of {fit['totalTokens']:,} tokens trained"]
    if fit.get("trimmed"):
        turns = f" ({fit['turnsRemoved']:,} turns removed)" if fit.get("turnsRemoved") else ""
        parts.insert(1, f"{fit['trimmed']:,} trimmed{turns}")
    if fit["tooLong"] > 0:
        parts.insert(1, f"{fit['tooLong']:,} left out as too long")
    if fit["paddingShare"]:
        parts.append(f"{fit['paddingShare']:.0%} padding")
    return ", ".join(parts)


def _checks(checks: list[Mapping[str, Any]]) -> str | None:
    if not checks:
        return None
    passed = sum(check["passed"] for check in checks)
    seconds = sum(check["seconds"] or 0 for check in checks)
    sign = "✓ passed" if passed == len(checks) else "! passed"
    values = [f"{check['name']} {check['value']:.2g} against {check['bound']:.2g}" for check in checks
              if check["value"] is not None and check["bound"] is not None]
    return f"{sign} {passed} of {len(checks)} in {spell_duration(seconds)}: {', '.join(values)}"


def _duration(run: Mapping[str, Any]) -> str:
    millis = run["timing"]["phaseMillis"]
    named = {"waiting for devices": ["AWAITING_CAPACITY"], "queued": ["STARTING_JOB", "QUEUED"],
             "preparing": ["PREPARING"], "training": ["TRAINING"]}
    seconds = {name: sum(millis.get(phase, 0) for phase in phases) / 1000 for name, phases in named.items()}
    total = sum(millis.values()) / 1000
    seconds["other"] = max(0.0, total - sum(seconds.values()))
    split = ", ".join(f"{name} {spell_duration(spent)}" for name, spent in seconds.items() if spent >= 0.05)
    ended = f", ended {_ago(run['endedAt'])}" if run["endedAt"] else ""
    return f"{spell_duration(total)}{ended}{f' ({split})' if split else ''}"


def _ago(moment: Any) -> str:
    then = datetime.fromisoformat(moment.replace("Z", "+00:00")) if isinstance(moment, str) else moment
    return f"{spell_duration(max(0, round((clock.now() - then).total_seconds())))} ago"


def _first_line(text: str | None) -> str | None:
    return text.splitlines()[0] if text else None
