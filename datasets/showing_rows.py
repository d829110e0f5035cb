"""How the commands show rows of datasets to a person, and what two datasets share."""

import json
from collections.abc import Iterator
from typing import Any

from datasets.row_documents import id_pieces, messages_of
from datasets.showing import size
from optimize_site.kernel.commands import NounCommand, plain

SHOWN_TEXT = 400


def rows(command: NounCommand, document: dict[str, Any]) -> None:
    """Rows, each message on a line of its own."""
    for row in document["rows"]:
        command.facts(list(_lines(row)), title=" · ".join(_title(row)))
    repeats = document["repeats"]
    if document["rows"] and 0 < repeats["compared"] < repeats["total"]:
        command.say(f"Repeats were looked for in {repeats['compared']:,} of {repeats['total']:,} rows.")
    if document["tokens"]["note"]:
        command.say(document["tokens"]["note"])
    if document["nextOffset"] is not None:
        command.say(f"More: --offset {document['nextOffset']}")
    elif not document["rows"]:
        command.say(f"No such row from position {document['offset']:,} on; the dataset has {document['total']:,} rows.")


def _title(row: dict[str, Any]) -> Iterator[str]:
    place = f" of {row['path']}" if row["path"] != "examples.jsonl" else ""
    yield f"{row['position']} (line {row['line']}{place})" if row["line"] else f"{row['position']}{place}"
    if isinstance(row.get("tokens"), dict):
        yield f"{row['tokens']['length']:,} tokens, {row['tokens']['trained']:,} trained"
    elif "trainedTokens" in row:
        yield f"{row['tokens']:,} tokens, {row['trainedTokens']:,} trained"
    if row["isCut"]:
        yield f"cut, {size(row['bytes'])} in all: --raw {row['position']}"
    if (repeats := row.get("repeats")) and repeats["count"]:
        places = ", ".join(map(str, repeats["positions"]))
        more = ", …" if repeats["count"] > len(repeats["positions"]) else ""
        yield f"also row {places}{more}"


def _lines(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "ids" in row:
        yield ("text", _marked(row["text"], "")) if "text" in row else ("ids", _marked(id_pieces(row), " "))
    elif "item" in row:
        yield "item", _clipped(json.dumps(row["item"], ensure_ascii=False))
    elif "prompt" in row:
        yield from ((message.get("role", ""), spoken(message)) for message in row["prompt"])
        yield from ((name, spoken(row[name])) for name in ("chosen", "rejected") if isinstance(row[name], dict))
    else:
        yield from ((message.get("role", ""), spoken(message)) for message in messages_of(row))


def _marked(pieces: list[dict[str, Any]], between: str) -> str:
    """Pieces of a row with the trained ones between `[[` and `]]`."""
    return _clipped(between.join(f"[[{piece['text']}]]" if piece["isTrained"] else piece["text"] for piece in pieces))


def spoken(message: dict[str, Any]) -> str:
    """What a message says and calls, on one line."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else " ".join(
        part.get("text") or f"[image {part.get('path', '')}]" for part in content)
    calls = [f"{call['function']['name']}({json.dumps(call['function']['arguments'], ensure_ascii=False)})"
             for call in message.get("tool_calls") or []]
    return _clipped(" ".join([*text.split(), *calls]))


def _clipped(line: str) -> str:
    return plain(line if len(line) <= SHOWN_TEXT else line[:SHOWN_TEXT] + "…")


def overlap(command: NounCommand, document: dict[str, Any]) -> None:
    """What rows to train on share with rows to judge by."""
    coverage = document["coverage"]
    compared = coverage["note"] or f"all {coverage['total']:,} rows with all {coverage['evaluationTotal']:,}"
    command.facts([("Compared", compared), ("Ask the same", _count(document["exact"])),
                   ("Ask nearly the same", _count(document["near"]))],
                  title=f"{document['training']} against {document['evaluation']}")
    first = [[pair["position"], pair["evaluationPosition"], pair.get("similarity", "same")]
             for pair in (*document["exact"]["first"], *document["near"]["first"])]
    if first:
        command.table(["TRAINING ROW", "EVALUATION ROW", "ALIKE"], first,
                      right=["TRAINING ROW", "EVALUATION ROW", "ALIKE"])


def _count(found: dict[str, Any]) -> str:
    return f"{found['rows']:,} rows, of {found['evaluationRows']:,} evaluation rows" if found["rows"] else "none"
