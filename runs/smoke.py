"""Smoke checks: what one is asked for, what refuses it, and its verdict in words. Pure.

A smoke check trains on the rows at the start of its dataset until they are memorised, and then sees that the model
reproduces them. It takes everything else from the descriptor, and leaves no model.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from optimize_site.kernel.errors import Problem
from runs.descriptor import REINFORCEMENT, RunDescriptor, method_of
from runs.facts import Facts

SLICE_ROWS, MAX_STEPS, THRESHOLD = 200, 2000, 0.98
JUDGED = ("passed", "failed", "ungraded", "not_memorised_in_steps")
"""Verdicts of a check that came to its end; `data_error` and `stopped` are those of one that did not."""
REPRODUCING = "reproducing"
"""The stage in which a job asks for the answers it has learned."""
DATA_CODES = frozenset({"bad_row", "row_too_long", "nothing_to_train", "dataset_missing"})
"""Failures that are a fault of the rows."""
SHORT = {"passed": "passed", "failed": "failed", "ungraded": "nothing to score",
         "not_memorised_in_steps": "not memorised in its updates", "data_error": "data error", "stopped": "stopped"}
TONES = {"passed": "good", "failed": "bad", "not_memorised_in_steps": "bad", "data_error": "bad"}
NEXT = {
    "failed": "Look at its data, its loss mask and its tokenizer.",
    "not_memorised_in_steps": "Raise smoke.maxSteps or the learning rate, or lower smoke.sliceSize.",
    "ungraded": "Every answer of the slice calls tools; only text answers are scored.",
    "data_error": "The rows could not be trained on.",
    "stopped": "It ended before it was judged.",
}


def settings_of(descriptor: RunDescriptor) -> dict[str, Any] | None:
    """What the descriptor asks for with the defaults filled in; None for a run that is no smoke check."""
    asked = descriptor.smoke
    if asked is None:
        return None
    return {"sliceSize": asked.slice_size or SLICE_ROWS, "maxSteps": asked.max_steps or MAX_STEPS,
            "threshold": asked.threshold or THRESHOLD}


def slice_size(settings: Mapping[str, Any] | None) -> int | None:
    """How many rows a smoke check trains on; None for any other run, which trains on all."""
    return None if settings is None else int(settings["sliceSize"])


def check_smoke(descriptor: RunDescriptor, facts: Facts) -> Iterator[Problem]:
    """A check asks the model for text and compares it, so there has to be text to ask for."""
    if descriptor.smoke is None:
        return
    method, dataset = method_of(descriptor), facts.dataset
    if method == "dpo":
        yield Problem("smoke", "smoke_not_for_method", "A smoke check reproduces answers, and the method dpo compares "
                      "two of them.", "Leave smoke out, or check the chosen answers with the method sft.")
    if method in REINFORCEMENT:
        yield Problem("smoke", "smoke_not_for_method", f"A smoke check learns its rows by heart, and a {method} run "
                      "samples answers of its own.", "Leave smoke out, or check the rows with the method sft.")
    if dataset is not None and dataset.format == "prepared-tokens-v1":
        yield Problem("smoke", "smoke_needs_text", f"{dataset.reference} holds prepared token rows; a smoke check "
                      "asks for the text of answers.", "Leave smoke out, or train on the rows as chat.")
    if dataset is not None and dataset.num_images:
        yield Problem("smoke", "smoke_needs_text", f"{dataset.reference} holds {dataset.num_images} images; a smoke "
                      "check reads text.", "Leave smoke out, or check rows without images.")


def words(smoke: Mapping[str, Any] | None) -> str | None:
    """`passed: 198 of 200 rows reproduced (99.0%, at least 98.0% wanted)`; None for a run that is no smoke check."""
    if smoke is None:
        return None
    verdict = smoke.get("verdict")
    if verdict is None:
        return (f"the first {smoke['sliceSize']:,} rows, at most {smoke['maxSteps']:,} updates, "
                f"{smoke['threshold']:.1%} to be reproduced")
    counts = _counts(smoke) if verdict in JUDGED else ""
    return " ".join(filter(None, [f"{SHORT[verdict]}{f': {counts}.' if counts else '.'}", NEXT.get(verdict)]))


def _counts(smoke: Mapping[str, Any]) -> str:
    left_out = smoke["toolAnswers"]
    tools = f"; {left_out:,} answer{'' if left_out == 1 else 's'} that call tools left out" if left_out else ""
    if smoke["score"] is None:
        return f"no row scored{tools}"
    return (f"{smoke['reproduced']:,} of {smoke['scored']:,} rows reproduced ({smoke['score']:.1%}, at least "
            f"{smoke['threshold']:.1%} wanted) after {smoke['step']:,} updates{tools}")
