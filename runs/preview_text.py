"""A preview in words: each row's text with its trained part between [[ and ]]."""

from collections.abc import Iterator, Mapping
from typing import Any

OPEN, CLOSE = "[[", "]]"
SHOWN = frozenset({"trained", "prompt"})
"""States of a row of which there are tokens to show."""


def preview_lines(found: Mapping[str, Any], *, with_tokens: bool) -> Iterator[str]:
    """The preview, a line at a time; with tokens each of them stands on a line of its own."""
    yield (f"The first {num_rows(found)} of {found['exampleCount']:,} rows of {found['dataset']} under "
           f"{found['baseModel']}, chat template {found['chatTemplateSha256'][:12]}. {how_shown(found)}")
    if found["problem"]:
        yield f"Refused: {found['problem']['reason']} {found['problem']['hint']}"
    for row in found["rows"]:
        yield ""
        yield heading(row)
        if row["state"] in SHOWN:
            yield from _token_lines(row) if with_tokens else [marked(row)]
    if found["sequences"]:
        yield ""
        yield "Packed among themselves: " + "; ".join(
            " + ".join(str(row) for row in sequence) for sequence in found["sequences"]) + "."
    if found["isShortened"]:
        yield "Fewer rows than asked for: they hold many tokens."


def num_rows(found: Mapping[str, Any]) -> int:
    """How many rows are shown; a pair stands twice, once with each answer."""
    return len({row["row"] for row in found["rows"]})


def how_shown(found: Mapping[str, Any]) -> str:
    """What is to be seen of a row."""
    if found.get("maxCompletionLength") is not None:
        return (f"Each is the prompt that is rolled out; a completion has at most {found['maxCompletionLength']:,} "
                "tokens.")
    return f"Trained text stands between {OPEN} and {CLOSE}."


def heading(row: Mapping[str, Any]) -> str:
    """What became of a row."""
    if row["state"] == "prompt":
        return f"Row {row['row']} ({row['place']}): a prompt of {row['tokens']:,} tokens"
    if row["state"] != "trained":
        word = "left out" if row["state"] == "left_out" else "refused"
        return f"Row {row['row']} ({row['place']}): {word}. {row['reason']} {row['hint']}".rstrip()
    said = [f"{row['tokens']:,} tokens, {row['trainedTokens']:,} trained"]
    if row["turnsRemoved"]:
        turns = "its oldest turn" if row["turnsRemoved"] == 1 else f"its {row['turnsRemoved']} oldest turns"
        said.append(f"without {turns}")
    if row["isCut"]:
        said.append("cut at the end")
    answer = f", {row['answer']}" if row.get("answer") else ""
    return f"Row {row['row']} ({row['place']}{answer}): {', '.join(said)}"


def marked(row: Mapping[str, Any]) -> str:
    """The row's text with its trained stretches marked."""
    parts, was_trained = [], 0
    for piece, is_trained in zip(row["pieces"], row["mask"], strict=True):
        if is_trained != was_trained:
            parts.append(OPEN if is_trained else CLOSE)
        parts.append(piece)
        was_trained = is_trained
    return "".join(parts) + (CLOSE if was_trained else "")


def _token_lines(row: Mapping[str, Any]) -> Iterator[str]:
    for place, (number, piece, is_trained) in enumerate(zip(row["ids"], row["pieces"], row["mask"], strict=True)):
        yield f"{place:>6}  {'trained' if is_trained else '       '}  {number:>7}  {piece!r}"
