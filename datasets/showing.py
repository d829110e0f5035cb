"""How the commands show datasets to a person."""

from typing import Any

from optimize_site.kernel.commands import NounCommand

SHOWN_HASH = 12
UNITS = ("bytes", "KiB", "MiB", "GiB")
EXAMPLES = {"preference-jsonl-v1": "pairs", "prepared-tokens-v1": "token rows", "eval-items-v1": "items"}
"""What the examples of a format are called; chat rows are examples."""


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


def examples(document: dict[str, Any]) -> str:
    """How many examples there are, with their name where they have one of their own."""
    return f"{document['exampleCount']} {EXAMPLES.get(document['format'], '')}".strip()


def tools(document: dict[str, Any]) -> str | None:
    """The line that says how many rows offer tools; None for a format whose rows offer none."""
    number = document["toolRows"]
    if document["format"] in {"prepared-tokens-v1", "eval-items-v1"}:
        return None
    return "not counted" if number is None else f"{number} rows offer tools"


def version(command: NounCommand, document: dict[str, Any]) -> None:
    """A dataset's version, and what was noticed in it."""
    command.facts([
        ("Format", document["format"]), counted(document), ("Tools", tools(document)), *prepared(document["details"]),
        ("Images", document["imageCount"] or None), ("Blank lines", document["blankLines"] or None),
        ("Size", size(document["sizeBytes"])), ("Content hash", document["contentHash"]),
        ("Digest", document["digest"]), ("Aliases", ", ".join(document["aliases"]) or None),
        ("Answers", answers(document["statistics"])), ("Description", document["description"] or None),
        ("Registered", f"{moment(document['createdAt'])} by {document['createdBy']}")],
        title=document["reference"] + (" (archived)" if document["isArchived"] else ""))
    for name, values in document["statistics"].get("fields", {}).items():
        command.facts([(name, balance(values))])
    findings(command, document["findings"])


def checked(command: NounCommand, document: dict[str, Any]) -> None:
    """A good file that was only looked at."""
    command.facts([
        ("Format", document["format"]), counted(document), ("Tools", tools(document)), *prepared(document["details"]),
        ("Images", document["imageCount"] or None), ("Blank lines", document["blankLines"] or None),
        ("Size", size(document["sizeBytes"])), ("Content hash", document["contentHash"]),
        ("Answers", answers(document["statistics"]))],
        title=f"{document['file']}: every row can be registered. Nothing was.")
    for name, values in document["statistics"].get("fields", {}).items():
        command.facts([(name, balance(values))])
    findings(command, document["findings"])


def counted(document: dict[str, Any]) -> tuple[str, int]:
    """The line that counts the examples, under their own name."""
    return EXAMPLES.get(document["format"], "examples").capitalize(), document["exampleCount"]


def prepared(details: dict[str, Any]) -> list[tuple[str, Any]]:
    """What prepared token rows were made with, and what they come to."""
    if "tokenizer" not in details:
        return []
    tokenizer = details["tokenizer"]
    return [("Tokenizer", f"{tokenizer['repository']} at {tokenizer['revision']}"),
            ("Chat template", details["chatTemplateSha256"] or "none"),
            ("Longest row", f"{details['longestRow']} tokens"),
            ("Tokens", f"{details['totalTokens']}, {details['trainedTokens']} of them trained")]


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


def tools_of(item: dict[str, Any]) -> Any:
    """The cell that counts the rows that offer tools."""
    return "not counted" if tools(item) == "not counted" else item["toolRows"]


def versions(command: NounCommand, document: dict[str, Any]) -> None:
    """A table of versions."""
    command.table(["VERSION", "EXAMPLES", "TOOL ROWS", "SIZE", "HASH", "ALIASES", "REGISTERED", "BY"],
                  [[item["reference"], examples(item), tools_of(item), size(item["sizeBytes"]),
                    item["contentHash"][:SHOWN_HASH], ", ".join(item["aliases"]), moment(item["createdAt"]),
                    item["createdBy"]]
                   for item in document["versions"]], right=["EXAMPLES", "TOOL ROWS", "SIZE"])
