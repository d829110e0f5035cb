"""Starting, cancelling, retrying and advancing evaluations."""

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from endpoints.errors import TemplateMismatch
from endpoints.operations.work_steps import (
    await_base,
    await_device,
    cancel,
    check_profile,
    queue,
    send_back,
)
from evaluations import phases
from evaluations.datasets import check_scorable
from evaluations.errors import (
    DatasetRequired,
    NothingToRetry,
    SubmissionConflict,
    WorkloadMismatch,
    WorkloadRequired,
)
from evaluations.judging import held_judge, judge_for, model_named
from evaluations.models import Evaluation
from evaluations.operations.recording import ask_grader, fail, finish, forget_failures, recount
from evaluations.subject import Subject, named_subject, usable_base_of
from optimize_site.kernel import doorbell, events
from optimize_site.kernel.auth import SYSTEM, Actor
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import InvalidInput, PhaseConflict
from optimize_site.kernel.graders import DEFAULT, available_grader, check_instructions
from optimize_site.kernel.hashing import sha256_json
from optimize_site.kernel.ids import derived_id, new_id
from optimize_site.kernel.judges import Appointment, Held, keeper
from optimize_site.kernel.phases import move
from registry.base_model_queries import BaseModelState
from registry.model_queries import workload_of
from registry.models import Version, Workload
from registry.operations.workloads import check_takes_work, refuse_archived_workload
from registry.queries import resolve_version
from registry.workload_queries import get_workload
from runs.models import Run

MAX_NEW_TOKENS = 4096
TO_COME = "model:to-come"
"""Stands for a judge that is yet to be trained."""
RunGrader = tuple[str, str]
"""The grader that a run states and what it tells a judge, each empty where it states none."""


@dataclass(frozen=True)
class Request:
    """What somebody asks to have evaluated; what is left out comes from the model's workload."""

    model: str
    dataset: str = ""
    grader: str = ""
    workload: str = ""
    max_new_tokens: int = 0
    description: str = ""
    submission_id: str = ""
    grader_instructions: str = ""

    @property
    def digest(self) -> str:
        """The same request has the same digest; the note is not part of it."""
        told = [self.grader_instructions] if self.grader_instructions else []
        return sha256_json([self.model, self.dataset, self.grader, self.workload, self.max_new_tokens, *told])


@dataclass(frozen=True)
class Submission:
    """The evaluation that a request reached; `is_new` is false where an earlier one had started it."""

    evaluation: Evaluation
    is_new: bool


@transaction.atomic
def start_evaluation(request: Request, *, actor: Actor) -> Submission:
    """Score a model over a dataset with a grader, as a job of its own.

    It waits where the base model is selected and still being prepared. A request with a `submission_id` reaches the
    evaluation that the first one started. Raises UnknownVersion,
    WorkloadRequired, WorkloadMismatch, DatasetRequired, DatasetNotScorable, AnswerCallsTools, BaseModelNotReady,
    TemplateMismatch, MalformedGrader, GraderNotAvailable, InstructionsDoNotApply, InstructionsRequired,
    NoRoomForJudges, SubmissionConflict, WorkloadArchived.
    """
    actor.require("operator")
    _refuse_length(request)
    stated = get_workload(request.workload) if request.workload else None
    subject = named_subject(request.model, stated.namespace_id if stated else "")
    workload = _workload(subject, stated)
    earlier = _find_submission(request, workload)
    if earlier is not None:
        return Submission(earlier, is_new=False)
    refuse_archived_workload(workload)
    usable_base_of(subject)
    dataset = dataset_of(request, workload)
    grader, told = _grader(request, _run_grader(subject.version), workload)
    judge = judge_for(grader, stated=told, dataset=dataset, workload=workload)
    return _create(request, actor, subject=subject, workload=workload, dataset=dataset, grader=grader, judge=judge)


def _refuse_length(request: Request) -> None:
    if not 0 <= request.max_new_tokens <= MAX_NEW_TOKENS:
        raise InvalidInput(f"An answer of at most {request.max_new_tokens} tokens was asked for; it must be between "
                           f"1 and {MAX_NEW_TOKENS}.", hint="0 or nothing takes the box's own ceiling.",
                           code="invalid_max_new_tokens")


def _create(request: Request, actor: Actor, *, subject: Subject, workload: Workload, dataset: Version,
            grader: str, judge: Appointment | None) -> Submission:
    tokens = request.max_new_tokens or setting("trainer.evaluations.max-new-tokens")
    settings = {"maxNewTokens": tokens, "temperature": 0.0} | (
        {"submissionDigest": request.digest} if request.submission_id else {})
    try:
        with transaction.atomic():
            row = Evaluation.objects.create(
                id=_identity(request, workload), phase=phases.AWAITING_BASE_MODEL, workload=workload,
                model=subject.version,
                dataset=dataset, content_hash=dataset.content_hash, grader=grader, settings=settings,
                base_model=subject.base_model, description=request.description, num_rows=check_scorable(dataset),
                submission_id=request.submission_id, created_by=actor.name, **_judged_by(judge))
            check_takes_work(workload.pk)
    except IntegrityError:
        earlier = _find_submission(request, workload)
        if earlier is None:
            raise
        return Submission(earlier, is_new=False)
    events.record("evaluation", row.pk, "evaluation.started", actor=actor,
                  data={"model": subject.name, "dataset": dataset.reference, "grader": grader,
                        "workload": workload.name})
    advance_evaluation(row)
    doorbell.ring_control()
    return Submission(row, is_new=True)


def _judged_by(judge: Appointment | None) -> dict[str, Any]:
    if judge is None:
        return {}
    return {"judge_id": judge.model_id, "grader_instructions": judge.instructions,
            "instructions_source": judge.source}


def check_request(request: Request, *, of_run: RunGrader | None = None, is_judged_later: bool = False) -> None:
    """What starting it would refuse; without a model, what can be told before there is one: `of_run` is what the run
    that makes it states. `is_judged_later` says that the judge is made first too. Raises the same."""
    _refuse_length(request)
    stated = get_workload(request.workload)
    if request.model:
        subject = named_subject(request.model, stated.namespace_id)
        _workload(subject, stated)
        usable_base_of(subject)
        of_run = _run_grader(subject.version)
    dataset = dataset_of(request, stated)
    check_scorable(dataset)
    if is_judged_later:
        check_instructions(TO_COME, request.grader_instructions)
        keeper().check_room(1)
    elif request.grader or of_run is not None:
        grader, told = _grader(request, of_run or ("", ""), stated)
        judge_for(grader, stated=told, dataset=dataset, workload=stated)


def _identity(request: Request, workload: Workload) -> str:
    return derived_id("evaluation", workload.pk, request.submission_id) if request.submission_id else new_id()


def _find_submission(request: Request, workload: Workload) -> Evaluation | None:
    if not request.submission_id:
        return None
    earlier = Evaluation.objects.filter(pk=_identity(request, workload))
    found = earlier.select_related("workload", "model__artifact", "dataset__artifact").first()
    if found is not None and found.settings.get("submissionDigest") != request.digest:
        raise SubmissionConflict(f"The submission {request.submission_id!r} already started the evaluation "
                                 f"{found.pk[:12]} with another request.", hint="Send another submissionId.",
                                 evaluationId=found.pk)
    return found


def _workload(subject: Subject, stated: Workload | None) -> Workload:
    own = workload_of(subject.version) if subject.version is not None else None
    if own is not None and stated is not None and own.pk != stated.pk:
        raise WorkloadMismatch(f"{subject.name} belongs to the workload {own.name}, not to {stated.name}.",
                               hint=f"Leave the workload out, or name {own.name}.")
    chosen = own or stated
    if chosen is None:
        what = "A base model belongs to no workload" if subject.is_base else \
            f"{subject.name} belongs to no workload"
        raise WorkloadRequired(f"{what}; name the one this evaluation is for.", hint="Pass --workload NAME.")
    return chosen


def dataset_of(request: Request, workload: Workload) -> Version:
    """The dataset that was named, else the workload's. Raises UnknownVersion, DatasetRequired."""
    if request.dataset:
        return resolve_version("dataset", request.dataset, namespace=workload.namespace_id)
    if workload.evaluation_dataset is None:
        raise DatasetRequired(f"The workload {workload.name} has no evaluation dataset, and none was named.",
                              hint=f"Pass --dataset, or run `workloads set-evaluation {workload.name} --dataset D`.")
    return workload.evaluation_dataset


def _grader(request: Request, of_run: RunGrader, workload: Workload) -> tuple[str, str]:
    """What was asked for, else the run's own grader, else the workload's, else json-label-match; with the instructions
    that are stated for it."""
    text, told, runs_own = request.grader, request.grader_instructions, ""
    if not text:
        text, runs_own = of_run
    grader = available_grader(text or workload.grader or DEFAULT, namespace=workload.namespace_id)
    return grader, told or (runs_own if model_named(grader) else "")


def _run_grader(version: Version | None) -> RunGrader:
    """The grader that the run of a model states, and what it states for a judge, be that the workload's; empty where it
    states none."""
    if version is None or version.produced_by_kind != "run":
        return "", ""
    run = Run.objects.filter(pk=version.produced_by_id.partition("#")[0]).only("grader", "descriptor").first()
    if run is None:
        return "", ""
    return run.grader, str((run.descriptor or {}).get("graderInstructions") or "")


@transaction.atomic
def cancel_evaluation(row: Evaluation, *, actor: Actor) -> Evaluation:
    """Stop it; what was answered stays. Cancelling twice changes nothing. Raises PhaseConflict where it ended."""
    locked = Evaluation.objects.select_for_update().get(pk=row.pk)
    cancel(locked, phases.EVALUATION, actor)
    return locked


@transaction.atomic
def annotate_evaluation(row: Evaluation, *, description: str | None, actor: Actor) -> Evaluation:
    """Set the note; an empty text clears it, None leaves it. ID and results stay."""
    actor.require("operator")
    if description is not None and description != row.description:
        Evaluation.objects.filter(pk=row.pk).update(description=description)
        row.description = description
        events.record("evaluation", row.pk, "evaluation.annotated", actor=actor, data={"description": description})
    return row


@transaction.atomic
def retry_evaluation(row: Evaluation, *, actor: Actor) -> Evaluation:
    """Answer what is missing, and ask the grader again where it gave no score. Answers from another commit or chat
    template than the one it resolves to now go first.

    Raises PhaseConflict where it is unfinished, NothingToRetry where nothing is missing, WorkloadArchived.
    """
    actor.require("operator")
    row = Evaluation.objects.select_for_update().get(pk=row.pk)
    if row.phase not in phases.ENDS:
        raise PhaseConflict(f"The evaluation {row.pk[:12]} is {row.phase}; it cannot be retried yet.", phase=row.phase)
    check_takes_work(row.workload_id)
    state = usable_base_of(Subject(row.model, row.base_model))
    stale = _stale(row, state).count() if state.is_ready else row.predictions.count()
    unscored = forget_failures(row)
    if row.phase == phases.COMPLETED and not stale and not unscored:
        raise NothingToRetry(f"Every row of the evaluation {row.pk[:12]} is answered from the present commit and "
                             "judged.", hint="Start a new evaluation to answer them again.")
    move(row, phases.AWAITING_BASE_MODEL, phases=phases.EVALUATION, actor=actor, reason="retry", ended_at=None,
         cancel_requested_at=None, failure_code="", failure_reason="", failure_hint="", report=None, stage={},
         checks=[])
    advance_evaluation(row)
    doorbell.ring_control()
    return row


def _stale(row: Evaluation, state: BaseModelState) -> Any:
    """Answers that the base model as it is prepared now did not give."""
    return row.predictions.exclude(base_revision=state.revision, chat_template_sha256=state.chat_template_sha256)


def advance_evaluations() -> None:
    """The next step of every evaluation that no job has yet."""
    for pk in Evaluation.objects.filter(phase__in=phases.QUEUED).values_list("pk", flat=True):
        with transaction.atomic():
            row = Evaluation.objects.select_for_update(skip_locked=True).filter(pk=pk).first()
            if row is not None:
                send_back(row, phases.EVALUATION, row.base_model)
                await_device(row, phases.EVALUATION)
                advance_evaluation(row)


def advance_judged() -> None:
    """Evaluations that wait for their judge: say what it waits for, or fail with it."""
    waiting = Evaluation.objects.filter(phase=phases.AWAITING_GRADER).exclude(judge=None)
    for pk in waiting.values_list("pk", flat=True):
        with transaction.atomic():
            row = waiting.select_for_update(skip_locked=True).filter(pk=pk).first()
            judge = held_judge(row) if row is not None else None
            if row is not None and judge is not None:
                _look_at_judge(row, judge)


def _look_at_judge(row: Evaluation, judge: Held) -> None:
    if judge.state == "failed":
        fail(row, judge.code, f"The judge failed: {judge.reason}", judge.hint)
    elif judge.reason != row.wait_reason:
        Evaluation.objects.filter(pk=row.pk).update(wait_reason=judge.reason[:300])


def advance_evaluation(row: Evaluation) -> None:
    """From waiting for the base model into the queue, once that is ready. Does nothing in any other phase."""
    if row.phase != phases.AWAITING_BASE_MODEL:
        return
    state = await_base(row, phases.EVALUATION, row.base_model)
    if state is None:
        return
    model = row.model or state.version
    if model is None:  # ready and registered in one transaction, so never seen from outside of it
        return
    try:
        check_profile(model, state)
    except TemplateMismatch as error:
        move(row, phases.FAILED, phases=phases.EVALUATION, actor=SYSTEM, reason=error.detail, failure_code=error.code,
             failure_reason=error.detail, failure_hint=error.hint)
        return
    _stale(row, state).delete()
    recount(row)
    resolved = {"model": model, "base_revision": state.revision, "chat_template_sha256": state.chat_template_sha256}
    if row.num_answered == row.num_rows:
        if row.predictions.unjudged().exists():
            ask_grader(row, **resolved)
        else:
            finish(row, actor=SYSTEM, **resolved)
        return
    queue(row, phases.EVALUATION, **resolved)
