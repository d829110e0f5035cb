"""Writes train.jsonl and held-out.jsonl, pairs of replies to customers: the one a desk would send and one it would not;
and eval.jsonl, the held-out questions with the better reply alone.

A situation's customer and answer are in `situations.json`. Each is told three ways and answered badly in four ways, so
that what is learned is the manner of the better reply. Every third situation is held out whole; its pairs are few,
since a run reads them at each validation.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SYSTEM = "You answer customers of a small online shop. Be brief, say what happens next, and promise nothing else."
OPENINGS = ("{ask}", "Hello, {ask_low}", "Hi there! {ask} Thanks.")
BAD = {
    "long-winded": "Thank you so much for reaching out to us today! We are truly sorry to hear about this and we "
                   "completely understand how frustrating it must be for you. At our shop every customer matters. "
                   "{act} Please do not hesitate to reach out again at any time, we are always happy to help you!",
    "says nothing": "We have received your message. Our team will look into it and get back to you as soon as possible.",
    "promises too much": "{act} You will also get a full refund and a voucher of 50 euros today, guaranteed.",
    "says the question again": "{ask}",
}
"""Ways to answer badly; {act} is what the good reply says will happen, {ask} what the customer wrote."""


def low(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:] if not sentence.startswith("I ") else sentence


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def prompts(situation: dict[str, str]) -> list[list[dict[str, str]]]:
    """What the desk is told and what the customer writes, once for each opening."""
    asks = [opening.format(ask=situation["ask"], ask_low=low(situation["ask"])) for opening in OPENINGS]
    return [[turn("system", SYSTEM), turn("user", ask)] for ask in asks]


def better(situation: dict[str, str]) -> dict[str, str]:
    return turn("assistant", f"{situation['sorry']} {situation['act']}".strip())


def pairs(situation: dict[str, str]) -> list[dict[str, Any]]:
    """Each opening beside each bad answer: twelve pairs, the first opening's first."""
    return [
        {"prompt": prompt, "chosen": better(situation), "rejected": turn("assistant", bad.format(**situation))}
        for prompt in prompts(situation) for bad in BAD.values()
    ]


def chats(situation: dict[str, str]) -> list[dict[str, Any]]:
    """Each opening with the better reply as its expected answer."""
    return [{"messages": [*prompt, better(situation)]} for prompt in prompts(situation)]


def write(name: str, rows: Iterable[dict[str, Any]]) -> None:
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (HERE / name).write_text("".join(lines), encoding="utf-8")


def main() -> None:
    situations = json.loads((HERE / "situations.json").read_text(encoding="utf-8"))
    held_out = situations[::3]
    write("train.jsonl", (pair for place, one in enumerate(situations) if place % 3 for pair in pairs(one)))
    write("held-out.jsonl", (pairs(one)[place % len(BAD)] for place, one in enumerate(held_out)))
    write("eval.jsonl", (chat for one in held_out for chat in chats(one)))


if __name__ == "__main__":
    main()
