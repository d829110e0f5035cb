"""Lists of runs, and of a run's figures, saves and settings, as rows of a table. Pure: documents in, rows out."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from runs.phases import title
from runs.smoke import SHORT
from runs.text import Row, last_words, leaves, spell_bytes, spell_value


def previous_rows(previous: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """Earlier runs of the recipe as table rows."""
    return [[run["runId"][:12], title(run["phase"]), run["configName"], run["model"],
             f"{run['score']['meanScore']:.4f}" if run["score"] else None, _day(run["createdAt"])] for run in previous]


def run_rows(runs: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """A list of runs as table rows."""
    return [[run["runId"][:12], run["workload"] + (" (archived)" if run["isArchived"] else ""), run["method"].upper(),
             run["baseModel"], run["dataset"], _phase(run), _short_progress(run), last_words(run),
             run["configName"], _day(run["createdAt"])] for run in runs]


def _phase(run: Mapping[str, Any]) -> str:
    """`Completed`; of a smoke check with its verdict: `Completed (smoke: passed)`."""
    smoke = run["smoke"]
    return title(run["phase"]) + (f" (smoke: {SHORT[smoke['verdict']]})" if smoke and smoke.get("verdict")
                                  else " (smoke)" if smoke else "")


MISSED_COLUMNS = ("ROW", "EXPECTED", "ANSWER", "ENDED")


def missed_rows(missed: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """Rows that a smoke check's model did not reproduce, as table rows."""
    return [[row["position"], " ".join(row["expected"].split()), " ".join(row["answer"].split()), row["finish"]]
            for row in missed]


METRIC_TITLES = {
    "loss": "LOSS", "validationLoss": "VALIDATION LOSS", "perplexity": "PERPLEXITY", "preferenceAccuracy": "ACCURACY",
    "rewardMargin": "MARGIN", "rewardChosen": "CHOSEN", "rewardRejected": "REJECTED", "zeroVarianceGroups": "NO SPREAD",
    "scoredZero": "SCORED ZERO", "scoredFull": "SCORED FULL", "reward": "REWARD"}
"""The columns that a run's figures have without being asked for."""
TERMS = "terms:"


def metric_columns(metrics: Collection[Mapping[str, Any]]) -> list[str]:
    """The figures shown of every step: those that any has; the loss says nothing of a run that learns from rewards."""
    found = [name for name in METRIC_TITLES if any(name in step for step in metrics)]
    return [name for name in found if name != "loss" or "reward" not in found] or ["loss"]


def metric_rows(metrics: Iterable[Mapping[str, Any]], fields: Iterable[str]) -> list[list[Any]]:
    """Steps as table rows; a field stands at the top of a step, under `measured`, or among the reward's terms."""
    names = list(fields)
    return [[step["step"], *(_number(_metric(step, name)) for name in names)] for step in metrics]


def _metric(step: Mapping[str, Any], name: str) -> Any:
    if name.startswith(TERMS):
        return step.get("rewardTerms", {}).get(name.removeprefix(TERMS))
    return step.get(name, step["measured"].get(name))


SNAPSHOT_COLUMNS = ("SAVED STEP", "EPOCH", "SNAPSHOT", "ARTIFACTS", "SWEPT", "SIZE", "STATUS", "HELD BY")


def snapshot_rows(snapshots: Iterable[Mapping[str, Any]]) -> list[list[Any]]:
    """Snapshots as table rows."""
    return [[row["step"], _number(row["epoch"]) if row["epoch"] is not None else None, row["snapshotId"][:12],
             ", ".join(row["artifacts"]) or None, ", ".join(row["swept"]) or None, spell_bytes(row["sizeBytes"]),
             row["status"], held_by(row["heldBy"])] for row in snapshots]


def snapshot_record_rows(record: Mapping[str, Any]) -> list[Row]:
    """A snapshot whole."""
    return [
        ("Snapshot", record["snapshotId"]), ("Run", record["runId"]), ("Attempt", record["attempt"]),
        ("Step", record["step"]), ("Base model", f"{record['baseModel']} at {record['baseModelRevision']}"),
        ("Engine", " ".join(filter(None, [record["engine"], record["architecture"]]))),
        *((f"{part['kind']}", f"manifest {part['manifestDigest']}") for part in record["artifacts"]),
        ("Removed", ", ".join(record["swept"]) or None), ("Size", spell_bytes(record["sizeBytes"])),
        ("Held by", held_by(record["heldBy"])), ("Status", record["status"])]


def held_by(holders: Iterable[Mapping[str, Any]]) -> str | None:
    """Who keeps a snapshot, as people read it."""
    said = dict.fromkeys(f"{holder['holder']} {holder['holderId'][:12]}".strip() for holder in holders)
    return ", ".join(said) or None


def candidate_rows(record: Mapping[str, Any]) -> list[Row]:
    """The registration of a snapshot."""
    return [("Model", record["modelId"]), ("Registered as", record["model"]), ("Phase", title(record["phase"])),
            ("Failure", record["failureReason"])]


def engine_rows(document: Mapping[str, Any]) -> list[list[Any]]:
    """Each requested setting, and what the engine made of it where that is another value."""
    resolved = {path.rpartition(".")[2]: value for path, value in leaves(document["resolved"], "")}
    rows = []
    for path, value in leaves(document["requested"], ""):
        found = resolved.get(path.rpartition(".")[2], value)
        rows.append([path.removeprefix("."), spell_value(value), spell_value(found) if found != value else None])
    return rows


def _number(value: Any) -> str | None:
    if value is None:
        return None
    return f"{value:.4f}" if isinstance(value, float) and 1e-3 <= abs(value) < 1e6 else f"{value:.4g}" \
        if isinstance(value, float) else str(value)


def _day(moment: Any) -> str:
    return str(moment)[:16].replace("T", " ")


def _short_progress(run: Mapping[str, Any]) -> str | None:
    progress = run["progress"]
    return f"{progress['step']}/{progress['totalSteps']}" if progress["totalSteps"] else None
