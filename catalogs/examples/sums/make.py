"""Writes train.jsonl and eval.jsonl: every sum of two numbers from 2 to 20, told apart by the pair.

Each sixth pair of a fixed shuffle is held out, so that no sum of the evaluation stands in training in that order.
"""

import json
import random
from pathlib import Path

HERE = Path(__file__).parent
SHOWN = ((4, 9), (12, 5))
"""The sums that every prompt shows as examples of the form; they are in neither file."""


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def exchange(left: int, right: int) -> list[dict[str, str]]:
    return [turn("user", f"{left} + {right}"), turn("assistant", f"#### {left + right}")]


def row(left: int, right: int) -> dict[str, list[dict[str, str]]]:
    """A chat that ends in the answer; a reinforcement run reads the turns before it and scores against it."""
    shown = [message for pair in SHOWN for message in exchange(*pair)]
    return {"messages": [turn("system", "You add numbers."), *shown, *exchange(left, right)]}


def write(name: str, pairs: list[tuple[int, int]]) -> None:
    lines = (json.dumps(row(*pair)) + "\n" for pair in pairs)
    (HERE / name).write_text("".join(lines), encoding="utf-8")


def main() -> None:
    pairs = [(left, right) for left in range(2, 21) for right in range(2, 21) if (left, right) not in SHOWN]
    random.Random(7).shuffle(pairs)
    write("eval.jsonl", pairs[::6])
    write("train.jsonl", [pair for place, pair in enumerate(pairs) if place % 6])


if __name__ == "__main__":
    main()
