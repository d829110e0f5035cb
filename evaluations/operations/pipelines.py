"""Pipelines: checked whole, then carried out stage by stage. What a stage does is a run or an evaluation of its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from evaluations.errors import NothingToResume, PipelineRefused, SubmissionConflict
from evaluations.models import Pipeline, Stage
from evaluations.operations.evaluations import Request, cancel_evaluation, check_request, start_evaluation
from evaluations.pipeline_descriptor import (
    EVALUATE_TEXTS,
    TRAIN,
    PipelineWish,
    StageWish,
    parse_pipeline,
    references_of,
    text_problems,
)
from evaluations.pipeline_phases import CANCELLED, COMPLETED, FAILED, PIPELINE, RUNNING
from evaluations.pipeline_queries import submission_of
from optimize_site.kernel import clock, doorbell, events
from optimize_site.kernel.auth import SYSTEM, Actor
from optimize_site.kernel.errors import Conflict, OperationError, PhaseConflict, Problem
from optimize_site.kernel.hashing import sha256_json
from optimize_site.kernel.ids import derived_id, new_id
from optimize_site.kernel.notes import check_note
from optimize_site.kernel.phases import move
from registry.models import Workload
from registry.operations.workloads import check_takes_work, refuse_archived_workload
from registry.workload_queries import get_workload
from runs.models import Run
from runs.operations import cancel_run, check_run, submit_run
from runs.phases import PHASES as RUN_PHASES
from runs.wording import describe_kind

ENDED = (Stage.State.COMPLETED, Stage.State.FAILED, Stage.State.CANCELLED, Stage.State.SKIPPED)


@dataclass(frozen=True)
class Checked:
    """A pipeline checked as a submission would be: its workload, what each stage resolved to, what is wrong."""

    wish: PipelineWish
    workload: Workload | None
    stages: tuple[dict[str, Any], ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Submission:
    """The pipeline that a submission reached; `is_new` is false where an earlier one had started it."""

    pipeline: Pipeline
    is_new: bool


def check_pipeline(document: Any, *, actor: Actor) -> Checked:
    """Everything a submission would be told, without a device and without a row."""
    actor.require("viewer")
    wish = parse_pipeline(document)
    problems, workload = list(wish.problems), None
    if wish.workload:
        try:
            workload = get_workload(wish.workload)
            refuse_archived_workload(workload)
        except OperationError as error:
            problems.append(Problem("workload", error.code, error.detail, error.hint))
    stages = [_check_stage(stage, wish, workload, problems, actor) for stage in wish.stages] if workload else []
    return Checked(wish, workload, tuple(stages), tuple(problems))


def _check_stage(stage: StageWish, wish: PipelineWish, workload: Workload, problems: list[Problem],
                 actor: Actor) -> dict[str, Any]:
    """What a stage resolves to; its problems are added under its path."""
    needs = sorted(set(references_of(stage).values()))
    shown: dict[str, Any] = {"name": stage.name, "type": stage.type, "needs": needs}
    if stage.type == TRAIN:
        checked = check_run(run_document(stage, workload), actor=actor)
        problems += [Problem(f"{stage.path}.{found['path']}", found["code"], found["message"], found["hint"])
                     for found in checked["problems"] if not _comes_later(stage, found["path"])]
        return shown | {key: checked[key] for key in ("configHash", "warnings", "references", "resolved", "stated")}
    problems += [Problem(f"{stage.path}.{found.path}", found.code, found.message, found.hint)
                 for found in _evaluate_problems(stage, _maker(stage, wish), workload)]
    gate = stage.fields.get("minMeanScore")
    return shown | {"model": stage.fields.get("model"), "dataset": stage.fields.get("dataset"),
                    "grader": stage.fields.get("grader"), "minMeanScore": gate}


def _comes_later(stage: StageWish, path: str) -> bool:
    """Whether a problem is of a field that an earlier stage will fill in."""
    return path in references_of(stage)


def _maker(stage: StageWish, wish: PipelineWish) -> StageWish | None:
    """The earlier train stage that makes the model of a stage; None where none does."""
    name = references_of(stage).get("model")
    made = (other for other in wish.stages if other.position < stage.position and other.type == TRAIN)
    return next((other for other in made if other.name == name), None)


def _evaluate_problems(stage: StageWish, maker: StageWish | None, workload: Workload) -> Iterator[Problem]:
    gate = stage.fields.get("minMeanScore")
    if gate is not None and (isinstance(gate, bool) or not isinstance(gate, (int, float)) or not 0 <= gate <= 1):
        yield Problem("minMeanScore", "gate_invalid", f"minMeanScore is {gate!r}; a score is between 0 and 1.")
    wrong = [*text_problems(stage.fields, EVALUATE_TEXTS), *_count_problems(stage)]
    if wrong:
        yield from wrong
        return
    if not stage.fields.get("model"):
        yield Problem("model", "required", "model is missing.", "Name a model, or an earlier stage as @NAME.")
        return
    later = references_of(stage)
    told = StageWish(stage.position, stage.name, stage.type, {
        name: value for name, value in stage.fields.items() if name not in later})
    of_run = (_text(maker, "grader"), _text(maker, "graderInstructions")) if maker is not None else None
    try:
        check_request(_request(told, workload, told.fields.get("model", "")), of_run=of_run,
                      is_judged_later=_is_judged_later(stage, maker))
    except OperationError as error:
        yield Problem("evaluation", error.code, error.detail, error.hint)


def _count_problems(stage: StageWish) -> Iterator[Problem]:
    tokens = stage.fields.get("maxCompletionTokens")
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int)):
        yield Problem("maxCompletionTokens", "wrong_kind", f"maxCompletionTokens is {describe_kind(tokens)}; it must "
                      "be a whole number.")


def _is_judged_later(stage: StageWish, maker: StageWish | None) -> bool:
    """Whether an earlier stage trains the judge, which the stage names or takes over from the one that made its model.
    """
    named = stage if stage.fields.get("grader") else maker
    return named is not None and "grader" in references_of(named)


def _text(stage: StageWish, name: str) -> str:
    value = stage.fields.get(name)
    return value if isinstance(value, str) else ""


def start_pipeline(document: Any, *, actor: Actor) -> Submission:
    """Start a pipeline that was found good. Raises PipelineRefused with every problem, SubmissionConflict."""
    actor.require("operator")
    checked = check_pipeline(document, actor=actor)
    earlier = _earlier(checked, document)
    if earlier is not None:
        return Submission(earlier, is_new=False)
    if checked.problems or checked.workload is None:
        raise PipelineRefused.because(checked.problems)
    try:
        pipeline = _store(checked, checked.workload, document, actor)
    except IntegrityError:
        earlier = _earlier(checked, document)
        if earlier is None:
            raise
        return Submission(earlier, is_new=False)
    return Submission(pipeline, is_new=True)


@transaction.atomic
def _store(checked: Checked, workload: Workload, document: Any, actor: Actor) -> Pipeline:
    pipeline = Pipeline.objects.create(
        id=_identity(checked.wish, workload), workload=workload, phase=RUNNING, descriptor=document,
        description=checked.wish.description, submission_id=checked.wish.submission_id,
        submission_digest=sha256_json(document), created_by=actor.name)
    Stage.objects.bulk_create([Stage(pipeline=pipeline, position=stage.position, name=stage.name, type=stage.type)
                               for stage in checked.wish.stages])
    check_takes_work(workload.pk)
    events.record("pipeline", pipeline.pk, "pipeline.started", actor=actor, data={"workload": workload.name})
    doorbell.ring_control()
    return pipeline


def _identity(wish: PipelineWish, workload: Workload) -> str:
    return derived_id("pipeline", workload.pk, wish.submission_id) if wish.submission_id else new_id()


def _earlier(checked: Checked, document: Any) -> Pipeline | None:
    if not checked.wish.submission_id or checked.workload is None:
        return None
    found = Pipeline.objects.filter(pk=_identity(checked.wish, checked.workload)).first()
    if found is not None and found.submission_digest != sha256_json(document):
        raise SubmissionConflict(f"The submission {checked.wish.submission_id!r} already started the pipeline "
                                 f"{found.pk[:12]} from another descriptor.", hint="Send another submissionId.",
                                 pipelineId=found.pk)
    return found


# Carrying out ---------------------------------------------------------------------------------------------------------


def advance_pipelines() -> None:
    """The next step of every running pipeline."""
    for pk in Pipeline.objects.filter(phase=RUNNING).values_list("pk", flat=True):
        with transaction.atomic():
            row = Pipeline.objects.select_for_update(skip_locked=True).filter(pk=pk).first()
            if row is not None and row.phase == RUNNING:
                advance_pipeline(row)


def advance_pipeline(pipeline: Pipeline) -> None:
    """Look at the stage in progress, and start the next one where it is done. Takes as many steps as are due."""
    for stage in pipeline.stages.select_related("run__model", "evaluation"):
        if stage.state == Stage.State.PENDING and not _begin(pipeline, stage):
            return
        if stage.state == Stage.State.RUNNING and not _look(stage):
            return
        if stage.state != Stage.State.COMPLETED:
            _end(pipeline, stage)
            return
    move(pipeline, COMPLETED, phases=PIPELINE, actor=SYSTEM)


def _begin(pipeline: Pipeline, stage: Stage) -> bool:
    """Start a stage under a submission of its own, so that one that was started before is found again."""
    if pipeline.cancel_requested_at is not None:
        _settle(stage, Stage.State.CANCELLED, "The pipeline was cancelled.")
        return True
    try:
        with transaction.atomic():
            _start(pipeline, stage)
    except OperationError as error:
        _settle(stage, Stage.State.FAILED, _words_of(error))
        return True
    stage.state, stage.started_at = Stage.State.RUNNING, clock.now()
    stage.save()
    events.record("pipeline", pipeline.pk, "pipeline.stage_started", actor=SYSTEM, data={"stage": stage.name})
    return True


def _words_of(error: OperationError) -> str:
    """A refusal in one line; each of its problems where there are several, which its detail only counts."""
    several = error.problems if len(error.problems) > 1 else ()
    told = [part for found in several for part in (f"{found.path}: {found.message}", found.hint)]
    return " ".join(filter(None, [error.detail, *told, error.hint]))


def _start(pipeline: Pipeline, stage: Stage) -> None:
    wish = _filled(pipeline, stage)
    submission = submission_of(stage, stage.number)
    actor = Actor(pipeline.created_by, "operator")
    if stage.type == TRAIN:
        document = run_document(wish, pipeline.workload) | {"submissionId": submission}
        stage.run = submit_run(document, actor=actor).run
        Run.objects.filter(pk=stage.run.pk).update(pipeline_id=pipeline.pk, stage_name=stage.name)
    else:
        request = _request(wish, pipeline.workload, wish.fields["model"], submission=submission)
        stage.evaluation = start_evaluation(request, actor=actor).evaluation


def _filled(pipeline: Pipeline, stage: Stage) -> StageWish:
    """The stage's fields with the models that earlier stages made in place of their names."""
    wish = parse_pipeline(pipeline.descriptor).stages[stage.position]
    fields = dict(wish.fields)
    for path, name in references_of(wish).items():
        made = pipeline.stages.get(name=name).model_id
        fields[path] = f"model:{made}" if path == "grader" else made
    return StageWish(wish.position, wish.name, wish.type, fields)


def _look(stage: Stage) -> bool:
    """Whether the stage's work is over; then the stage says how it ended."""
    return _look_at_run(stage) if stage.type == TRAIN else _look_at_evaluation(stage)


def _look_at_run(stage: Stage) -> bool:
    run = stage.run
    if run is None or run.phase in RUN_PHASES.open:
        return False
    if run.phase == "COMPLETED":
        stage.model = run.model
        return _settle(stage, Stage.State.COMPLETED)
    state = Stage.State.CANCELLED if run.phase == "CANCELLED" else Stage.State.FAILED
    return _settle(stage, state, run.failure_reason or "Its run was cancelled.")


def _look_at_evaluation(stage: Stage) -> bool:
    row = stage.evaluation
    if row is None or row.ended_at is None:
        return False
    if row.phase != "COMPLETED":
        state = Stage.State.CANCELLED if row.phase == "CANCELLED" else Stage.State.FAILED
        return _settle(stage, state, row.failure_reason or "Its evaluation was cancelled.")
    stage.mean_score, stage.model = row.mean_score, row.model
    gate = parse_pipeline(stage.pipeline.descriptor).stages[stage.position].fields.get("minMeanScore")
    if gate is not None and (row.mean_score is None or row.mean_score < gate):
        shown = "nothing" if row.mean_score is None else f"{row.mean_score:.4f}"
        return _settle(stage, Stage.State.FAILED, f"It scored {shown}, below its gate {gate}.")
    return _settle(stage, Stage.State.COMPLETED)


def _settle(stage: Stage, state: str, reason: str = "") -> bool:
    stage.state, stage.reason, stage.ended_at = state, reason, clock.now()
    stage.save()
    events.record("pipeline", stage.pipeline_id, f"pipeline.stage_{state.lower()}", actor=SYSTEM, reason=reason,
                  data={"stage": stage.name})
    return True


def _end(pipeline: Pipeline, stage: Stage) -> None:
    """A stage that did not complete ends its pipeline; the stages behind it do not run."""
    pipeline.stages.filter(position__gt=stage.position, state=Stage.State.PENDING).update(state=Stage.State.SKIPPED)
    cancelled = pipeline.cancel_requested_at is not None
    reason = f"The stage {stage.name} {'was cancelled' if stage.state == Stage.State.CANCELLED else 'failed'}: " \
             f"{stage.reason}"
    # An evaluation that completed and a stage that did not: only its gate lies between them.
    is_gated = stage.evaluation is not None and stage.evaluation.phase == COMPLETED
    code = "gate_not_met" if is_gated else "stage_failed"
    move(pipeline, CANCELLED if cancelled else FAILED, phases=PIPELINE, actor=SYSTEM, reason=reason,
         failure_code="" if cancelled else code, failure_reason="" if cancelled else reason)


def cancel_pipeline(pipeline: Pipeline, *, actor: Actor) -> Pipeline:
    """Cancel the stage in progress; those behind it do not run. Cancelling twice changes nothing."""
    actor.require("operator")
    with transaction.atomic():
        locked = Pipeline.objects.select_for_update().get(pk=pipeline.pk)
        if locked.phase != RUNNING:
            raise PhaseConflict(f"The pipeline {locked.pk[:12]} is {locked.phase}; there is nothing to cancel.",
                                phase=locked.phase)
        if locked.cancel_requested_at is None:
            locked.cancel_requested_at = clock.now()
            locked.save(update_fields=["cancel_requested_at"])
            events.record("pipeline", locked.pk, "pipeline.cancel_requested", actor=actor)
    for stage in locked.stages.filter(state=Stage.State.RUNNING):
        _cancel_stage(stage, actor)
    with transaction.atomic():
        again = Pipeline.objects.select_for_update().get(pk=pipeline.pk)
        if again.phase == RUNNING:
            advance_pipeline(again)
    doorbell.ring_control()
    return again


def _cancel_stage(stage: Stage, actor: Actor) -> None:
    """Work that ended in the meantime needs no cancelling."""
    try:
        if stage.run is not None:
            cancel_run(stage.run, actor=actor)
        elif stage.evaluation is not None:
            cancel_evaluation(stage.evaluation, actor=actor)
    except Conflict:
        return


@transaction.atomic
def resume_pipeline(pipeline: Pipeline, *, actor: Actor) -> Pipeline:
    """Take a failed or cancelled pipeline up again at the stage that did not complete; a running one goes on as it is.

    Raises NothingToResume where it completed, WorkloadArchived.
    """
    actor.require("operator")
    row = Pipeline.objects.select_for_update().get(pk=pipeline.pk)
    if row.phase == RUNNING:
        return row
    if row.phase == COMPLETED:
        raise NothingToResume(f"The pipeline {row.pk[:12]} is COMPLETED; every stage has run.")
    check_takes_work(row.workload_id)
    for stage in row.stages.exclude(state=Stage.State.COMPLETED):
        again = stage.number + (stage.started_at is not None)
        Stage.objects.filter(pk=stage.pk).update(state=Stage.State.PENDING, number=again, run=None, evaluation=None,
                                                 mean_score=None, reason="", started_at=None, ended_at=None)
    move(row, RUNNING, phases=PIPELINE, actor=actor, reason="resumed", cancel_requested_at=None, failure_code="",
         failure_reason="", ended_at=None)
    doorbell.ring_control()
    return row


@transaction.atomic
def annotate_pipeline(pipeline: Pipeline, *, description: str | None, actor: Actor) -> Pipeline:
    """Set the note; an empty text clears it, None leaves it. Raises InvalidInput for one that is too long."""
    actor.require("operator")
    check_note("description", description)
    if description is not None and description != pipeline.description:
        Pipeline.objects.filter(pk=pipeline.pk).update(description=description)
        pipeline.description = description
        events.record("pipeline", pipeline.pk, "pipeline.annotated", actor=actor, data={"description": description})
    return pipeline


def run_document(stage: StageWish, workload: Workload) -> dict[str, Any]:
    """A train stage as a run's descriptor."""
    return {"kind": "run", "workload": workload.name, **stage.fields}


def _request(stage: StageWish, workload: Workload, model: str, *, submission: str = "") -> Request:
    fields: dict[str, Callable[[Any], Any]] = {"dataset": str, "grader": str, "description": str}
    stated = {name: kind(stage.fields[name]) for name, kind in fields.items() if stage.fields.get(name)}
    return Request(model, workload=workload.name, submission_id=submission,
                   grader_instructions=str(stage.fields.get("graderInstructions") or ""),
                   max_new_tokens=int(stage.fields.get("maxCompletionTokens") or 0), **stated)
