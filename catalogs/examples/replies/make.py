"""Writes train.jsonl and held-out.jsonl: pairs of replies to customers, the one a desk would send and one it would not.

A situation's customer and answer are in `situations.json`. Each is told three ways and answered badly in three ways, so
that what is learned is the manner of the better reply. Every sixth situation is held out whole.
"""

import json
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
}
"""Ways to answer badly; {act} is what the good reply says will happen."""


def low(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:] if not sentence.startswith("I ") else sentence


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def pairs(situation: dict[str, str]) -> list[dict[str, Any]]:
    """Each opening beside each bad answer: nine pairs."""
    asks = [opening.format(ask=situation["ask"], ask_low=low(situation["ask"])) for opening in OPENINGS]
    return [
        {"prompt": [turn("system", SYSTEM), turn("user", ask)],
         "chosen": turn("assistant", f"{situation['sorry']} {situation['act']}".strip()),
         "rejected": turn("assistant", bad.format(act=situation["act"]))}
        for ask in asks for bad in BAD.values()
    ]


def write(name: str, situations: list[dict[str, str]]) -> None:
    lines = (json.dumps(pair, ensure_ascii=False) + "\n" for situation in situations for pair in pairs(situation))
    (HERE / name).write_text("".join(lines), encoding="utf-8")


def main() -> None:
    situations = json.loads((HERE / "situations.json").read_text(encoding="utf-8"))
    write("held-out.jsonl", situations[::6])
    write("train.jsonl", [one for place, one in enumerate(situations) if place % 6])


if __name__ == "__main__":
    main()
