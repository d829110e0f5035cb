"""Comparisons: a snapshot and what was branched from it, scored on the same rows; the source becomes a model first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from evaluations import comparison_phases as phases
from evaluations.errors import ComparisonRefused, SubmissionConflict
from evaluations.models import Comparison, Target
from evaluations.operations.evaluations import Request, check_request, dataset_of, start_evaluation
from evaluations.trained_models import run_of
from optimize_site.kernel import doorbell, events
from optimize_site.kernel.auth import SYSTEM, Actor
from optimize_site.kernel.errors import NotFound, OperationError
from optimize_site.kernel.graders import DEFAULT, available_grader
from optimize_site.kernel.hashing import sha256_json
from optimize_site.kernel.ids import derived_id, new_id
from optimize_site.kernel.phases import move
from registry.model_queries import get_model
from registry.models import Version, Workload
from registry.operations.workloads import check_takes_work
from runs.models import Candidate, Run, Snapshot
from runs.operations import get_candidate, register_candidate
from runs.operations.sweeping import MOST_BRANCHES
from runs.queries import get_run, get_snapshot

SOURCE, CANDIDATE, BRANCH = "source", "candidate", "branch"


@dataclass(frozen=True)
class Wish:
    """What is to be compared: the source snapshot, models that runs or their saves became, branches by run, or every
    branch."""

    source: str
    candidates: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    all_branches: str = ""
    dataset: str = ""
    grader: str = ""
    max_new_tokens: int = 0
    submission_id: str = ""

    @property
    def digest(self) -> str:
        return sha256_json([self.source, self.candidates, self.branches, self.all_branches, self.dataset, self.grader,
                            self.max_new_tokens])


@dataclass(frozen=True)
class Chosen:
    """What a target is made from: a run, and the model where it is not the run's own."""

    kind: str
    run: Run
    model: Version | None = None

    @property
    def model_id(self) -> str | None:
        return self.model.pk if self.model is not None else self.run.model_id


@dataclass(frozen=True)
class Submission:
    """The comparison that a request reached; `is_new` is false where an earlier one had made it."""

    comparison: Comparison
    is_new: bool


def create_comparison(wish: Wish, *, actor: Actor) -> Submission:
    """Start a comparison. Raises ComparisonRefused, SubmissionConflict, NotFound, and what an evaluation refuses."""
    actor.require("operator")
    source = get_snapshot(wish.source)
    earlier = _earlier(wish, source)
    if earlier is not None:
        return Submission(earlier, is_new=False)
    try:
        return Submission(_create(wish, source, actor), is_new=True)
    except IntegrityError:
        # Another request with this submission came between the look and the insert: its comparison is the answer.
        earlier = _earlier(wish, source)
        if earlier is None:
            raise
        return Submission(earlier, is_new=False)


def check_comparison(wish: Wish, *, actor: Actor) -> None:
    """What starting it would refuse, whatever it will be held against: its source, its rows, its grader. Raises the
    same."""
    actor.require("viewer")
    _checked_request(wish, get_snapshot(wish.source).run.workload)


def _checked_request(wish: Wish, workload: Workload) -> Request:
    asked = Request("", dataset=wish.dataset, grader=wish.grader, workload=workload.name,
                    max_new_tokens=wish.max_new_tokens)
    check_request(asked)
    return asked


@transaction.atomic
def _create(wish: Wish, source: Snapshot, actor: Actor) -> Comparison:
    workload = source.run.workload
    asked = _checked_request(wish, workload)
    fan, targets = _targets(wish, source)
    row = Comparison.objects.create(
        id=_identity(wish, source), workload=workload, source=source, dataset=dataset_of(asked, workload),
        phase=phases.PREPARING, grader=available_grader(wish.grader or source.run.grader or workload.grader or DEFAULT,
                                                        namespace=workload.namespace_id),
        max_new_tokens=wish.max_new_tokens, fan=fan, submission_id=wish.submission_id, submission_digest=wish.digest,
        created_by=actor.name)
    Target.objects.bulk_create([Target(comparison=row, position=number, kind=one.kind, run=one.run, model=one.model)
                                for number, one in enumerate(targets)])
    check_takes_work(workload.pk)
    register_candidate(source, actor=actor)
    events.record("comparison", row.pk, "comparison.created", actor=actor, data={"source": source.pk})
    doorbell.ring_control()
    return row


def _targets(wish: Wish, source: Snapshot) -> tuple[int | None, list[Chosen]]:
    """The source, then what was selected; of all branches those that completed. Raises ComparisonRefused."""
    chosen = [_candidate(text) for text in wish.candidates]
    chosen += [Chosen(BRANCH, get_run(text)) for text in wish.branches]
    fan = None
    if wish.all_branches:
        parent = get_run(wish.all_branches)
        children = Run.objects.filter(parent=parent, source_snapshot=source)
        fan = children.count()
        done = children.filter(phase="COMPLETED").select_related("workload", "model__artifact").order_by("created_at")
        chosen += [Chosen(BRANCH, run) for run in done]
    _refuse(wish, chosen)
    known: dict[tuple[str, str | None], Chosen] = {}
    for one in chosen:
        known.setdefault((one.run.pk, one.model_id), one)
    return fan, [Chosen(SOURCE, source.run), *known.values()]


def _candidate(text: str) -> Chosen:
    """A model by ID or name, or a run for the model that it made. Raises ComparisonRefused, NotFound."""
    try:
        model = get_model(text)
    except NotFound:
        return Chosen(CANDIDATE, get_run(text))
    run = run_of(model)
    if run is None:
        raise ComparisonRefused(f"{model.reference} was made by no run of this box, so its settings cannot be held "
                                "against the source's.", hint="Evaluate it over the same rows instead: `./optimize "
                                f"evaluations start --model {model.reference} --dataset DATASET`.")
    return Chosen(CANDIDATE, run, model)


def _refuse(wish: Wish, chosen: Sequence[Chosen]) -> None:
    if not (wish.candidates or wish.branches or wish.all_branches):
        raise ComparisonRefused("Nothing was selected to compare the source with.",
                                hint="Name runs with --branch, models with --candidate, or all with --all-branches "
                                "PARENT.")
    if not chosen:
        raise ComparisonRefused("No branch of the source has completed; there is nothing to compare.",
                                hint="Wait for the branches, or name runs.")
    unfinished = [one.run for one in chosen if one.model_id is None]
    if unfinished:
        raise ComparisonRefused(f"The run {unfinished[0].pk[:12]} is {unfinished[0].phase} and has made no model.",
                                hint="Only completed runs are compared.")
    if len(chosen) > MOST_BRANCHES:
        raise ComparisonRefused(f"{len(chosen)} models were selected; one comparison scores at most {MOST_BRANCHES}.")


def _identity(wish: Wish, source: Snapshot) -> str:
    return derived_id("comparison", source.pk, wish.submission_id) if wish.submission_id else new_id()


def _earlier(wish: Wish, source: Snapshot) -> Comparison | None:
    found = Comparison.objects.filter(pk=_identity(wish, source)).first() if wish.submission_id else None
    if found is not None and found.submission_digest != wish.digest:
        raise SubmissionConflict(f"The submission {wish.submission_id!r} already made the comparison {found.pk[:12]} "
                                 "from another request.", hint="Send another submissionId.", comparisonId=found.pk)
    return found


def advance_comparisons() -> None:
    """The next step of every comparison that is not over."""
    for pk in Comparison.objects.filter(phase__in=phases.COMPARISON.open).values_list("pk", flat=True):
        with transaction.atomic():
            row = Comparison.objects.select_for_update(skip_locked=True).filter(pk=pk).first()
            if row is not None:
                _advance(row)


def _advance(row: Comparison) -> None:
    if row.phase == phases.PREPARING and _prepare(row):
        move(row, phases.RUNNING, phases=phases.COMPARISON, actor=SYSTEM)
    if row.phase == phases.RUNNING:
        over = [_look(target) for target in row.targets.all()]
        if all(over):
            _conclude(row)


def _prepare(row: Comparison) -> bool:
    """Whether every target has its model, or will have none."""
    candidate = get_candidate(row.source)
    if candidate.phase == Candidate.REGISTERING:
        return False
    for target in row.targets.select_related("run__model", "model"):
        made = candidate.version if target.kind == SOURCE else target.model or target.run.model
        if made is None:
            _fail(target, candidate.reason or "It has no model.")
        elif target.state == Target.State.PENDING:
            target.model = made
            target.save(update_fields=["model"])
            _start(row, target)
    return True


def _start(row: Comparison, target: Target) -> None:
    assert target.model is not None  # noqa: S101 - the caller just set it
    request = Request(target.model.pk, dataset=row.dataset.reference, grader=row.grader, workload=row.workload.name,
                      max_new_tokens=row.max_new_tokens, submission_id=f"{row.pk[:32]}-{target.position}")
    try:
        with transaction.atomic():
            target.evaluation = start_evaluation(request, actor=Actor(row.created_by, "operator")).evaluation
    except OperationError as error:
        _fail(target, error.detail)
        return
    target.state = Target.State.RUNNING
    target.save(update_fields=["evaluation", "state"])


def _look(target: Target) -> bool:
    """Whether a target is over; its score, or why it has none, is kept."""
    evaluation = target.evaluation
    if target.state == Target.State.RUNNING and evaluation is not None and evaluation.ended_at is not None:
        if evaluation.phase == "COMPLETED" and evaluation.mean_score is not None:
            target.state, target.mean_score = Target.State.COMPLETED, evaluation.mean_score
            target.save(update_fields=["state", "mean_score"])
        else:
            _fail(target, evaluation.failure_reason or f"Its evaluation ended {evaluation.phase} without a score.")
    return target.state in {Target.State.COMPLETED, Target.State.FAILED}


def _fail(target: Target, reason: str) -> None:
    target.state, target.reason = Target.State.FAILED, reason
    target.save(update_fields=["state", "reason"])


def _conclude(row: Comparison) -> None:
    """COMPLETED where all were scored, PARTIAL where some were, FAILED where none was."""
    states = list(row.targets.values_list("state", flat=True))
    scored = states.count(Target.State.COMPLETED)
    to = phases.COMPLETED if scored == len(states) else phases.PARTIAL if scored else phases.FAILED
    reason = "" if scored else "No target was scored."
    move(row, to, phases=phases.COMPARISON, actor=SYSTEM, reason=reason, failure_reason=reason)


def winner_of(row: Comparison) -> Any:
    """The target with the best score; None unless every target was scored, and where two share the best score."""
    if row.phase != phases.COMPLETED:
        return None
    best = sorted(row.targets.all(), key=lambda target: -(target.mean_score or 0))
    tied = len(best) > 1 and best[0].mean_score == best[1].mean_score
    return None if tied else best[0]
