"""Reads what people marked beside what graders said of the same answers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Avg, F, Max, OuterRef, Q, QuerySet, Subquery

from evaluations.agreement import agreement, agreement_document
from evaluations.models import Evaluation, Mark, Prediction
from optimize_site.kernel.graders import parse_target

Pair = tuple[float, float | None]


def marked_answers(predictions: QuerySet[Prediction]) -> QuerySet[Any]:
    """Those of the answers that somebody marked, here or where another grader scored the same answer to the same row;
    each with `label`, the mean of the marks."""
    same = Mark.objects.filter(content_hash=OuterRef("evaluation__content_hash"), position=OuterRef("position"),
                               prediction__answer=OuterRef("answer")).order_by()
    mean = same.values("position").annotate(mean=Avg("score")).values("mean")
    found: QuerySet[Any] = predictions.annotate(label=Subquery(mean))
    return found.filter(label__isnull=False)


def agreement_of(row: Evaluation) -> dict[str, Any]:
    """How far an evaluation's grader agrees with people: here, `overall` over everything that it ever judged, and
    beside it the other graders of the same rows."""
    others = [judge for judge in _by_judge(Prediction.objects.filter(evaluation__content_hash=row.content_hash))
              if (judge["grader"], judge["graderInstructions"] or "") != (row.grader, row.grader_instructions)]
    own = list(marked_answers(row.predictions.all()).values_list("label", "score"))
    return {"evaluationId": row.pk, "marked": len(own), **_document(row.grader, row.grader_instructions, own),
            "overall": _overall(row), "others": sorted(others, key=lambda judge: -judge["compared"])}


def _overall(row: Evaluation) -> dict[str, Any]:
    """How far an evaluation's grader, told the same, agrees with people over everything that it judged."""
    alike = {"evaluation__grader": row.grader, "evaluation__grader_instructions": row.grader_instructions}
    found = next(_by_judge(_on_marked_rows().filter(**alike)), None)
    return found or _document(row.grader, row.grader_instructions, [])


def agreement_by_judge() -> list[dict[str, Any]]:
    """Every grader that scored answers which people marked, the most compared first."""
    return sorted(_by_judge(_on_marked_rows()), key=lambda judge: -judge["compared"])


def agreement_of_newest(most: int) -> tuple[list[dict[str, Any]], bool]:
    """The same of the graders that were asked last, so that a page need not read what every one ever scored; and
    whether there are more of them."""
    asked = Evaluation.objects.filter(content_hash__in=Mark.objects.values("content_hash"))
    named = asked.values_list("grader", "grader_instructions").annotate(newest=Max("created_at")).order_by("-newest")
    graders = list(named[:most + 1])
    alike = [Q(evaluation__grader=grader, evaluation__grader_instructions=told) for grader, told, _ in graders[:most]]
    found = _by_judge(_on_marked_rows().filter(reduce(or_, alike))) if alike else ()
    return sorted(found, key=lambda judge: -judge["compared"]), len(graders) > most


def agreement_of_model(reference: str) -> list[dict[str, Any]]:
    """How far a model agrees with people as a judge: once for each text that it was told, the most compared first."""
    found = _by_judge(_on_marked_rows().filter(evaluation__grader=f"model:{reference}"))
    return sorted(found, key=lambda judge: -judge["compared"])


def _on_marked_rows() -> QuerySet[Prediction]:
    """The answers to rows of which somebody marked some answer."""
    return Prediction.objects.filter(evaluation__content_hash__in=Mark.objects.values("content_hash"))


def labels_of(predictions: Iterable[Prediction], *, by: str) -> dict[int, dict[str, Any]]:
    """By position, what people say of these answers: the mean of `marks` marks, and one person's own."""
    shown = [prediction.pk for prediction in predictions]
    rows = marked_answers(Prediction.objects.filter(pk__in=shown))
    own = dict(Mark.objects.filter(prediction__in=shown, by=by).values_list("position", "score"))
    return {row.position: {"label": row.label, "own": own.get(row.position)} for row in rows}


def _by_judge(predictions: QuerySet[Prediction]) -> Iterator[dict[str, Any]]:
    """A document a grader and its instructions; an answer that it scored twice, in two evaluations, counts once."""
    found: defaultdict[tuple[str, str], dict[tuple[str, int, str], Pair]] = defaultdict(dict)
    rows = marked_answers(predictions).order_by("evaluation__created_at").values_list(
        F("evaluation__grader"), F("evaluation__grader_instructions"), F("evaluation__content_hash"), "position",
        "answer", "label", "score")
    for grader, told, content, position, answer, label, score in rows.iterator():
        found[grader, told][content, position, answer] = (label, score)
    for (grader, told), pairs in found.items():
        yield _document(grader, told, list(pairs.values()))


def _document(grader: str, told: str, pairs: list[Pair]) -> dict[str, Any]:
    target = parse_target(grader)
    return {"grader": grader, "graderInstructions": told or None,
            "isModel": target is not None and target.kind == "model", **agreement_document(agreement(pairs))}
