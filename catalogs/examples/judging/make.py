"""Writes the rows of a judge: train.jsonl and held-out.jsonl, in the form in which a judge is asked, and asked.jsonl,
what customers of the held-out situations wrote, to be answered and judged.

The situations of situations.json are split, so that no situation of the held-out rows stands in training.
"""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HELD_OUT = 6
"""The last so many situations are held out."""
REASONS = {1: "It says what happens next and when.", 0: "It does not say what happens next."}


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def judged(told: str, message: str, reply: str, score: int) -> dict[str, Any]:
    """A reply and its verdict, as a judge is asked and as it is to answer."""
    shown = json.dumps({"input": message, "output": reply, "outputCalls": []}, ensure_ascii=False)
    verdict = json.dumps({"score": score, "reason": REASONS[score]})
    return {"messages": [turn("system", told), turn("user", shown), turn("assistant", verdict)]}


def judged_rows(told: str, situations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Good and bad replies by turns, so that neither the order nor the number gives a verdict away."""
    return [judged(told, found["message"], reply, score) for found in situations
            for pair in zip(found["good"], found["bad"], strict=True) for reply, score in zip(pair, (1, 0), strict=True)]


def asked_row(found: dict[str, Any]) -> dict[str, Any]:
    """What a customer wrote and a good reply. Without a system message: a judge is then shown the message alone, as it
    was trained."""
    return {"messages": [turn("user", found["message"]), turn("assistant", found["good"][0])]}


def write(name: str, rows: list[dict[str, Any]]) -> None:
    (HERE / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    told = (HERE / "instructions.txt").read_text(encoding="utf-8").strip()
    situations = json.loads((HERE / "situations.json").read_text(encoding="utf-8"))
    write("train.jsonl", judged_rows(told, situations[:-HELD_OUT]))
    write("held-out.jsonl", judged_rows(told, situations[-HELD_OUT:]))
    write("asked.jsonl", [asked_row(found) for found in situations[-HELD_OUT:]])


if __name__ == "__main__":
    main()
