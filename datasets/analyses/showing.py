"""How commands show an analysis to a person."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from optimize_site.kernel.commands import NounCommand
from optimize_site.kernel.ids import SHOWN

FEW = 5
SECONDS = (("h", 3600), ("m", 60), ("s", 1))
FIGURES = {"steps": "Updates", "tokensPerEpoch": "Tokens an epoch", "tokensPerSecond": "Tokens a second",
           "seconds": "Time", "cost": "Cost"}


def analysis(command: NounCommand, document: Mapping[str, Any]) -> None:
    """All of an analysis: what it is of, how it stands, and its figures once there are some."""
    command.facts([
        ("Status", status_words(document)), ("Failure", document["failureReason"]), ("To do", document["failureHint"]),
        ("Dataset", ", ".join(document["datasets"]) or document["contentHash"]),
        ("Lines are of", document["placesOf"] if len(document["datasets"]) > 1 else None),
        ("Base model", f"{document['baseModel']} at {document['baseModelRevision'][:SHOWN]}"),
        ("Optimize", document["productVersion"]), ("Attempt", document["attempt"] or None),
    ], title=f"Analysis {document['analysisId'][:SHOWN]}")
    if document["report"]:
        _report(command, document["report"], document["unit"])
    if document.get("estimates"):
        _estimates(command, document["estimates"])


def status_words(document: Mapping[str, Any]) -> str:
    """`Running: measuring 400 of 1,000 rows`."""
    progress, status = document["progress"], str(document["status"]).capitalize()
    if document["isCancelling"]:
        return "Being cancelled"
    if document["status"] == "pending":
        return f"{status}. {progress['waitReason'] or ''}".strip()
    if document["status"] == "running" and progress["stage"]:
        total = f" {progress['done'] or 0:,} of {progress['total']:,} {progress['unit'] or ''}".rstrip() \
            if progress["total"] else ""
        return f"{status}: {progress['stage']}{total}"
    return status


def listed(command: NounCommand, page: Mapping[str, Any]) -> None:
    """A dataset's analyses as a table."""
    command.table(["ANALYSIS", "BASE MODEL", "STATUS", "ROWS", "MAX TOKENS", "ATTEMPT", "STARTED"],
                  [[row["analysisId"][:SHOWN], f"{row['baseModel']} at {row['baseModelRevision'][:SHOWN]}",
                    status_words(row), row["rows"], row["maxTokens"], row["attempt"] or None,
                    str(row["startedAt"] or "")[:16].replace("T", " ")] for row in page["analyses"]],
                  right=["ROWS", "MAX TOKENS", "ATTEMPT"])


def _report(command: NounCommand, report: Mapping[str, Any], unit: str) -> None:
    lengths, tokens, total = report["lengths"], report["trainedTokens"], max(1, report["totalTokens"])
    tokenizer, digest = report["tokenizer"], str(report["chatTemplateSha256"])
    command.facts([
        ("Tokenizer", f"{tokenizer['repository']} at {tokenizer['revision'][:SHOWN]}"),
        ("Chat template", f"{digest[:SHOWN]} ({report['templateOrigin']})"),
        (unit.capitalize(), f"{report['rows']:,}"),
        ("Tokens", f"median {lengths['median']:,}, p90 {lengths['p90']:,}, p99 {lengths['p99']:,}, longest "
                   f"{lengths['longest']:,}; {report['totalTokens']:,} in all"),
        ("Suggested", f"maxSeqLength {report['suggestedMaxSeqLength']:,}"),
        ("Trained", f"{tokens['default']:,} tokens ({tokens['default'] / total:.0%}) by default"),
        ("", f"{tokens['all']:,} tokens ({tokens['all'] / total:.0%}) with assistantTurns: all"),
        ("Offer tools", f"{report['toolRows']:,}" if report.get("toolRows") else None),
        *_noticed(report, unit),
    ], title="Lengths")
    print("\nRows over common limits")
    command.table(["LIMIT", "OVER", "STILL OVER WHEN TRIMMED"],
                  [[limit["limit"], limit["over"], limit["overTrimmed"]] for limit in report["limits"]],
                  right=["LIMIT", "OVER", "STILL OVER WHEN TRIMMED"])
    print(f"\nLongest {unit}")
    command.table(["LINE", "TOKENS", "TRIMMED"],
                  [[_line(row), row["tokens"], row["trimmedTokens"]] for row in report["longestRows"][:FEW]],
                  right=["LINE", "TOKENS", "TRIMMED"])


def _line(place: Mapping[str, Any]) -> str:
    """A row's line, and its file where the dataset has several."""
    return f"{place['line']} of {place['shard']}" if place.get("shard") else str(place["line"])


def _noticed(report: Mapping[str, Any], unit: str) -> Iterator[tuple[str, Any]]:
    """What a person should look at."""
    number = report.get("templateProblemRows") or 0
    if number:
        yield "Not rendered", f"{number:,} {unit} that the chat template refuses or renders without a text or a call"
        for problem in report["templateProblems"][:FEW]:
            yield "", f"line {_line(problem)}: {problem['reason']}"
    joined = report.get("consecutiveAssistant") or {}
    if joined.get("rows"):
        yield "Joined turns", f"{joined['rows']:,} {unit} whose assistant messages in a row become one turn"
    repeated = report.get("duplicates") or {}
    if repeated.get("exact") or repeated.get("near"):
        yield "Duplicates", f"{repeated.get('exact') or 0:,} exact, {repeated.get('near') or 0:,} nearly the same"
    for field in (report.get("labels") or [])[:FEW]:
        top = ", ".join(f"{value['value']} {value['rows']:,}" for value in field["values"][:FEW])
        yield f"Answers: {field['field']}" if field["field"] else "Answers", top
    languages = report.get("languages") or []
    if languages:
        yield "Languages", ", ".join(f"{found['language']} {found['rows']:,}" for found in languages[:FEW])


def _estimates(command: NounCommand, estimates: Mapping[str, Any]) -> None:
    """What the run file would take; each figure and each setting with where it comes from."""
    command.facts([(label, _figure(name, estimates[name])) for name, label in FIGURES.items()], title="Estimates")
    print("\nThey follow from")
    command.table(["SETTING", "VALUE", "FROM"], [
        [setting["setting"].removeprefix("config."), json.dumps(setting["value"]).strip('"'),
         "file" if setting["from"] == "stated" else "default"] for setting in estimates["settings"]])


def _figure(name: str, figure: Mapping[str, Any]) -> str:
    if figure["value"] is None:
        return f"unknown: {figure['note']}"
    value = _spelled(figure["value"]) if name == "seconds" else f"{figure['value']:,.2f}" if name == "cost" \
        else f"{figure['value']:,.0f}"
    return f"{value} ({figure['source']}): {figure['note']}"


def _spelled(seconds: float) -> str:
    left, words = round(seconds), []
    for unit, size in SECONDS:
        number, left = divmod(left, size)
        if number:
            words.append(f"{number}{unit}")
    return " ".join(words[:2]) or "0s"
