"""`json-label-match`: field by field, the JSON object in the answer against the one in the expected answer."""

from collections.abc import Mapping
from typing import Any

from .json_values import find_object, same_json
from .rule import Example, Rule
from .verdict import Verdict, unscored


def match_labels(answer: str, expected: str) -> Verdict:
    """Field by field, whether the JSON object in the answer equals the one in the expected answer.

    The score is the share of expected fields that match. An answer without a JSON object scores zero; an expected
    answer without one, or without fields, cannot be judged by.
    """
    wanted = find_object(expected)
    if wanted is None:
        return unscored("expected_without_json", "The expected answer holds no JSON object.")
    if not wanted:
        return unscored("expected_without_fields", "The expected JSON object has no fields.")
    given = find_object(answer)
    if given is None:
        return Verdict(0.0, False, dict.fromkeys(wanted, False), "The answer holds no JSON object.")
    fields = {name: name in given and same_json(given[name], value) for name, value in wanted.items()}
    return Verdict(sum(fields.values()) / len(fields), all(fields.values()) and len(given) == len(wanted), fields,
                   _explain(fields, given))


def _explain(fields: Mapping[str, bool], given: Mapping[str, Any]) -> str:
    wrong = [name for name, matches in fields.items() if not matches]
    missing = [name for name in wrong if name not in given]
    extra = [name for name in given if name not in fields]
    parts = [f"{label}: {', '.join(names)}" for label, names in
             (("differs", [name for name in wrong if name in given]), ("missing", missing), ("not asked for", extra))
             if names]
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""


RULE = Rule(
    "json-label-match", "The share of the expected JSON object's fields that the answer's has with the same value.",
    (), lambda parameters: match_labels,
    Example({}, '{"team": "billing", "urgency": "high"}', 'Here it is: {"team": "billing", "urgency": "low"}'),
    compares_texts=True, parts="field")
