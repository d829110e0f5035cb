"""A scorer of the tests' own, in the protocol of the real one: told its terms, it answers by what each says of a text.

A term's `grader` is one of: `length` (characters over 100), `vowels` (their share), `even` (1 for an even number of
characters), `always:X`, `fail-odd` (no verdict for an odd number; `fail-some`: for one that five divides), `fail-kinds`
(of each four the first says nothing, the second NaN, the third broke, the fourth took too long), `die` (ends at the
first request in each process), `die-once:FILE` (the same, until the file is there), `refuse` (is not ready),
`leave:ASK:FILE` (`length`; at the second request it has the control file ask that of the job, and answers no more).
"""

import json
import math
import sys
import time
from collections.abc import Iterable
from pathlib import Path


def main() -> None:
    spec = json.loads(sys.stdin.readline())
    if any(term["grader"] == "refuse" for term in spec["terms"]):
        say({"ready": False, "code": "bundle_broken", "reason": "The module does not import", "hint": "Mend it."})
        return
    say({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        if request["id"] == 2:
            ask_to_leave(term["grader"] for term in spec["terms"])
        say({"id": request["id"], "terms": [verdicts(term, request["items"]) for term in spec["terms"]]})


def ask_to_leave(graders: Iterable[str]) -> None:
    for grader in graders:
        if grader.startswith("leave:"):
            _, ask, control = grader.split(":", 2)
            Path(control).write_text(json.dumps({"token": 1, "ask": ask}))
            time.sleep(600)


def verdicts(term: dict, items: list[dict]) -> dict:
    return {"name": term["name"], "seconds": 0.25, "tokens": 0,
            "verdicts": [verdict(term["grader"], item["completion"], at) for at, item in enumerate(items)]}  # fmt: skip


FAILURES = ((None, ""), (math.nan, ""), (None, "error"), (None, "timeout"))


def verdict(grader: str, text: str, at: int) -> dict:
    if grader == "die" or (grader.startswith("die-once:") and not mark(Path(grader.partition(":")[2]))):
        sys.exit(3)
    value, cause = FAILURES[at % 4] if grader == "fail-kinds" else (score(grader, text), "")
    if value is None and grader != "fail-kinds":
        cause = "timeout"
    return {"score": value, "isExact": False, "fields": {}, "explanation": grader, "cause": cause}


def mark(path: Path) -> bool:
    """Whether the file was there; it is afterwards."""
    there = path.exists()
    path.touch()
    return there


def score(grader: str, text: str) -> float | None:
    if grader.startswith("always:"):
        return float(grader.partition(":")[2])
    if grader == "vowels":
        return sum(letter in "aeiou" for letter in text) / max(1, len(text))
    if grader == "even":
        return float(len(text) % 2 == 0)
    if grader == "fail-odd":
        return None if len(text) % 2 else 1.0
    if grader == "fail-some":
        return None if len(text) % 5 == 0 else 1.0
    return len(text) / 100


def say(body: dict) -> None:
    print(json.dumps(body), flush=True)


if __name__ == "__main__":
    main()
