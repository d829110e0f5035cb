"""Graders that are models: who judges an evaluation, what it is told, and whether it stands ready."""

from typing import Any

from django.db.models import Q, QuerySet

from endpoints.instructions import instructions_for
from endpoints.models import Judge
from endpoints.phases import READY
from evaluations import phases
from evaluations.models import Evaluation
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.graders import check_instructions, parse_target
from optimize_site.kernel.judges import Appointment, Held, keeper, scorer_body
from registry.model_queries import get_model
from registry.models import Version, Workload
from registry.workload_queries import told_by_workload


def model_named(grader: str) -> str:
    """The model that a grader asks; empty where it asks none."""
    target = parse_target(grader)
    return target.target if target is not None and target.kind == "model" else ""


def judge_for(grader: str, *, stated: str, dataset: Version, workload: Workload) -> Appointment | None:
    """The judge that a grader names, told what was stated, else what the workload states for it, else what it inherits;
    None where no model grades.

    Raises InstructionsDoNotApply where instructions are stated and no model grades, NoRoomForJudges, and what
    appointing a judge refuses.
    """
    named = model_named(grader)
    if not named:
        check_instructions(grader, stated)
        return None
    judge = keeper().appoint(named, instructions=stated, dataset_id=dataset.pk, namespace=workload.namespace_id,
                             of_workload=told_by_workload(workload, grader))
    keeper().check_room(1)
    return judge


def told_by(grader: str, dataset: Version, workload: Workload) -> str | None:
    """What the judge of this grader is told in a workload where nothing is stated, so that scores may stand beside each
    other.

    Empty where no model grades; None where the judge has nothing to inherit, so that no such score can be.
    """
    named = model_named(grader)
    if not named:
        return ""
    try:
        return instructions_for(get_model(named), "", dataset, of_workload=told_by_workload(workload, grader))[0]
    except OperationError:
        return None


# While an evaluation is scored ---------------------------------------------------------------------------------------

HOLDER = "evaluation"


def wants_judge(evaluation_id: str) -> bool:
    """Whether an evaluation has use for its judge now: from when all is answered until all is scored."""
    wanted = (phases.AWAITING_GRADER, phases.SCORING)
    return Evaluation.objects.filter(pk=evaluation_id, phase__in=wanted, cancel_requested_at=None).exists()


def hold_judge(row: Evaluation) -> None:
    """Have the evaluation's judge started, where a model grades it. Raises NoRoomForJudges."""
    if row.judge_id is not None:
        keeper().hold(HOLDER, row.pk, [row.judge_id], created_by=row.created_by)


def held_judge(row: Evaluation) -> Held | None:
    """The evaluation's judge, as far as it is."""
    return next((judge for judge in keeper().held(HOLDER, row.pk) if judge.model_id == row.judge_id), None)


def gradable() -> Q:
    """Of the evaluations that wait for their grader, those that no judge keeps waiting."""
    ready: QuerySet[Judge] = Judge.objects.filter(holder_kind=HOLDER, phase=READY)
    return Q(judge=None) | Q(pk__in=ready.values("holder_id"))


def judge_term(row: Evaluation) -> dict[str, Any]:
    """What a term of the scorer's spec holds for the evaluation's judge."""
    judge = {"modelId": row.judge_id, "instructions": row.grader_instructions,
             "instructionsSource": row.instructions_source}
    held = held_judge(row)
    return {"judge": scorer_body(judge, [held] if held else [])}
