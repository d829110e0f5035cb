"""Two models on the same rows: the paired difference with its interval, and the rows that flipped."""

from typing import Any

from evaluations.errors import NotComparable
from evaluations.models import Evaluation, Prediction
from evaluations.queries import speaking_for
from evaluations.scores import score_document
from evaluations.statistics import Paired, paired_difference
from registry.models import Version, Workload


def compare_models(workload: Workload, a: Version, b: Version) -> dict[str, Any]:
    """How `b` does against `a` on the workload's present dataset and grader.

    `flips` are the rows whose score changed, with both answers, the losses first. Raises NotComparable.
    """
    one, other = evaluation_for(workload, a), evaluation_for(workload, b)
    pairs = _pairs(one, other)
    flips = [_flip(before, after) for before, after in pairs if before.score != after.score]
    return {"workload": workload.name, "a": _side(a, one), "b": _side(b, other),
            "paired": paired_document(_difference(pairs)),
            "flips": sorted(flips, key=lambda flip: (flip["direction"] == "better", flip["position"]))}


def evaluation_for(workload: Workload, version: Version) -> Evaluation:
    """The evaluation that speaks for a model in a workload now. Raises NotComparable."""
    dataset = workload.evaluation_dataset
    if dataset is None:
        raise NotComparable(f"The workload {workload.name} has no evaluation dataset.",
                            hint=f"`workloads set-evaluation {workload.name} --dataset D` sets it.")
    found = speaking_for(version, workload)
    if found is None:
        raise NotComparable(f"{version.reference} was not evaluated on {dataset.reference} by {workload.grader}.",
                            hint=f"`evaluations start --model {version.reference} --workload {workload.name}` does it.")
    return found


def paired(one: Evaluation, other: Evaluation) -> Paired | None:
    """The paired difference of two evaluations of the same rows."""
    return _difference(_pairs(one, other))


def paired_document(found: Paired | None) -> dict[str, Any] | None:
    """The difference as documents show it."""
    if found is None:
        return None
    return {"rows": found.num_rows, "difference": found.difference, "interval": list(found.interval),
            "better": found.num_better, "worse": found.num_worse, "decided": found.is_decided}


def _pairs(one: Evaluation, other: Evaluation) -> list[tuple[Prediction, Prediction]]:
    """Rows that both scored, in order."""
    befores = {row.position: row for row in one.predictions.exclude(score=None)}
    afters = other.predictions.exclude(score=None).order_by("position")
    return [(befores[row.position], row) for row in afters if row.position in befores]


def _difference(pairs: list[tuple[Prediction, Prediction]]) -> Paired | None:
    return paired_difference([before.score or 0.0 for before, _ in pairs], [after.score or 0.0 for _, after in pairs])


def _flip(before: Prediction, after: Prediction) -> dict[str, Any]:
    is_better = (after.score or 0.0) > (before.score or 0.0)
    return {"position": after.position, "direction": "better" if is_better else "worse",
            "prompt": after.prompt.get("messages", []), "expected": after.expected, "a": _answer(before),
            "b": _answer(after)}


def _answer(row: Prediction) -> dict[str, Any]:
    return {"answer": row.answer, "score": row.score, "isExact": row.is_exact, "fields": row.fields,
            "explanation": row.explanation}


def _side(version: Version, evaluation: Evaluation) -> dict[str, Any]:
    return score_document(evaluation) | {"model": version.reference}
