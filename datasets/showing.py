"""How the commands show datasets to a person."""

import json
from typing import Any

from optimize_site.kernel.commands import NounCommand, plain

SHOWN_HASH = 12
SHOWN_TEXT = 400
UNITS = ("bytes", "KiB", "MiB", "GiB")


def size(number: int | None) -> str:
    """Bytes for people."""
    value = float(number or 0)
    for unit in UNITS:
        if value < 1024 or unit == UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == UNITS[0] else f"{value:.1f} {unit}"


def moment(text: Any) -> str:
    """A time as tables show it."""
    return str(text)[:16].replace("T", " ")


def tools(document: dict[str, Any]) -> str:
    """The line that says how many rows offer tools."""
    number = document["toolRows"]
    return "not counted" if number is None else f"{number} rows offer tools"


def version(command: NounCommand, document: dict[str, Any]) -> None:
    """A dataset's version, and what was noticed in it."""
    command.facts([
        ("Format", document["format"]), ("Examples", document["exampleCount"]), ("Tools", tools(document)),
        ("Images", document["imageCount"] or None), ("Blank lines", document["blankLines"] or None),
        ("Size", size(document["sizeBytes"])), ("Content hash", document["contentHash"]),
        ("Digest", document["digest"]), ("Aliases", ", ".join(document["aliases"]) or None),
        ("Answers", answers(document["statistics"])), ("Description", document["description"] or None),
        ("Registered", f"{moment(document['createdAt'])} by {document['createdBy']}")], title=document["reference"])
    for name, values in document["statistics"].get("fields", {}).items():
        command.facts([(name, balance(values))])
    findings(command, document["findings"])


def answers(statistics: dict[str, Any]) -> str | None:
    """What kinds of answers there are, and how long."""
    kinds = ", ".join(f"{number} {kind}" for kind, number in statistics.get("answers", {}).items())
    lengths = statistics.get("answerCharacters") or {}
    return f"{kinds}; {lengths['median']} characters in the middle, {lengths['max']} at most" if lengths else None


def balance(values: dict[str, Any]) -> str:
    """The commonest values of a field."""
    top = ", ".join(f"{item['value']} {item['rows']}" for item in values["top"][:6])
    more = values["distinct"] - min(6, len(values["top"]))
    return f"{top}, and {more} more" if more > 0 else top


def findings(command: NounCommand, noticed: list[dict[str, Any]]) -> None:
    """What registration noticed, if anything."""
    for finding in noticed:
        lines = ", ".join(str(line) for line in finding["lines"])
        where = f"{finding['count']}; line {lines}" if lines else str(finding["count"])
        command.facts([("Noticed", f"{finding['message']} ({where})")])


def versions(command: NounCommand, document: dict[str, Any]) -> None:
    """A table of versions."""
    command.table(["VERSION", "EXAMPLES", "TOOL ROWS", "SIZE", "HASH", "ALIASES", "REGISTERED", "BY"],
                  [[item["reference"], item["exampleCount"], "not counted" if item["toolRows"] is None
                    else item["toolRows"], size(item["sizeBytes"]), item["contentHash"][:SHOWN_HASH],
                    ", ".join(item["aliases"]), moment(item["createdAt"]), item["createdBy"]]
                   for item in document["versions"]], right=["EXAMPLES", "TOOL ROWS", "SIZE"])


def rows(command: NounCommand, document: dict[str, Any]) -> None:
    """Rows, each message on a line of its own."""
    for row in document["rows"]:
        command.facts([(message["role"], spoken(message)) for message in row["messages"]],
                      title=f"{row['position']} (line {row['line']})")
    if document["nextOffset"] is not None:
        command.say(f"More: --offset {document['nextOffset']}")


def spoken(message: dict[str, Any]) -> str:
    """What a message says and calls, on one line."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    calls = [f"{call['function']['name']}({json.dumps(call['function']['arguments'], ensure_ascii=False)})"
             for call in message.get("tool_calls") or []]
    line = " ".join([*text.split(), *calls])
    return plain(line if len(line) <= SHOWN_TEXT else line[:SHOWN_TEXT] + "…")
