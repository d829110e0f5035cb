"""What passes between a grader and the model that judges: the question it is asked, and the verdict in its answer."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evaluations.graders import Verdict
from evaluations.graders.json_values import find_object, without_thoughts
from evaluations.graders.verdict import unscored

NO_VERDICT = "no_verdict"
LOOSE_SCORE = re.compile(r"""\bscore\b["'*]*\s*(?:[:=]|\bis\b)\s*["'*]*(-?\d+(?:\.\d+)?)(?![\d.])""", re.IGNORECASE)
SHOWN = 200


def judge_messages(instructions: str, prompt: Sequence[Mapping[str, Any]], output: str,
                   calls: Sequence[Mapping[str, Any]] | None) -> list[dict[str, str]]:
    """What a judge is asked about one answer: its instructions, and a JSON object of `input`, `output`, `outputCalls`.

    `input` is what the user said where that is all of it, else the messages. A system message that the instructions
    hold already is not said twice. The expected answer is no part of it.
    """
    asked = [dict(message) for message in prompt
             if not (message.get("role") == "system" and _text(message) and _text(message) in instructions)]
    is_plain = len(asked) == 1 and asked[0].get("role") == "user"
    body = {"input": _text(asked[0]) if is_plain else asked, "output": output, "outputCalls": list(calls or [])}
    return [{"role": "system", "content": instructions},
            {"role": "user", "content": json.dumps(body, ensure_ascii=False)}]


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def read_judgement(text: str, *, is_cut: bool = False) -> Verdict:
    """The verdict in a judge's answer: the score of its JSON object, or of whatever else states one between 0 and 1.

    Unscored with the cause `no_verdict` where there is none, or none in that range: what scale was meant is not
    guessed. `is_cut` says that the answer reached its token ceiling.
    """
    found = find_object(text) or {}
    score = _number(found["score"]) if "score" in found else _loose(text)
    if score is None:
        return unscored(NO_VERDICT, f"The judge's answer {'was cut before' if is_cut else 'states'} "
                        f"{'its' if is_cut else 'no'} score: {_shown(text)}")
    if not 0 <= score <= 1:
        return unscored(NO_VERDICT, f"The judge's score is {score:g}, which is not between 0 and 1: {_shown(text)}")
    return Verdict(score, score == 1, explanation=_reason(found))


def _number(value: Any) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _loose(text: str) -> float | None:
    said = without_thoughts(text).strip()
    named = LOOSE_SCORE.search(said)
    return float(named.group(1)) if named else _number(said) if len(said) <= 8 else None


def _reason(found: Mapping[str, Any]) -> str:
    said = next((found[name] for name in ("reason", "explanation") if isinstance(found.get(name), str)), "")
    return " ".join(said.split())


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= SHOWN else line[:SHOWN - 1] + "…")
