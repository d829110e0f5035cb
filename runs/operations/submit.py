"""Submitting a run: checked whole, admitted before any device is claimed, and the same one for the same submission."""

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from optimize_site.kernel import doorbell, events
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.graders import available_grader
from optimize_site.kernel.hashing import sha256_json
from optimize_site.kernel.ids import derived_id, new_id
from registry.operations.workloads import check_takes_work
from runs.descriptor import Parsed, RunDescriptor, parse_descriptor
from runs.errors import RunRefused, SubmissionConflict
from runs.evidence import predicted_memory
from runs.facts import Facts, WorkloadFacts
from runs.lookups import facts_for
from runs.models import Run
from runs.operations.judge_room import room_problems
from runs.operations.length_check import measure, start_analyses
from runs.operations.sampler_room import sampler_problems
from runs.resolve import Resolved, resolve


@dataclass(frozen=True)
class Submission:
    """The run that a submission reached; `is_new` is false where an earlier one had made it."""

    run: Run
    is_new: bool


def submit_run(document: Any, *, actor: Actor) -> Submission:
    """Admit a run. Raises RunRefused with every problem, SubmissionConflict where the submission was another one."""
    actor.require("operator")
    parsed = parse_descriptor(document)
    facts = facts_for(parsed.descriptor)
    earlier = _earlier(parsed, facts, document)
    if earlier is not None:
        return Submission(earlier, is_new=False)
    resolved = resolve(parsed, facts)
    refused = [*measure(resolved, facts)[0], *room_problems(resolved), *sampler_problems(resolved, facts)]
    if resolved.problems or refused:
        raise RunRefused.because([*resolved.problems, *refused])
    run = build_run(parsed.descriptor, document, resolved, facts, actor)
    try:
        store_run(run, actor)
    except IntegrityError:
        # Another request with this submission came between the look and the insert: its run is the answer.
        earlier = _earlier(parsed, facts, document)
        if earlier is None:
            raise
        return Submission(earlier, is_new=False)
    return Submission(run, is_new=True)


def run_id_of(workload: WorkloadFacts, submission_id: str | None) -> str:
    """The ID that a submission gives: derived where it is stated, else random."""
    return derived_id("run", workload.id, submission_id) if submission_id else new_id()


def _earlier(parsed: Parsed, facts: Facts, document: Any) -> Run | None:
    submission = parsed.descriptor.submission_id
    if not submission or facts.workload is None or parsed.problems:
        return None
    run = Run.objects.filter(pk=run_id_of(facts.workload, submission)).first()
    if run is not None and run.submission_digest != sha256_json(document):
        raise SubmissionConflict(f"The submission {submission!r} already started the run {run.pk[:12]} from another "
                                 "descriptor.", hint="Use another submissionId, or send the first descriptor.",
                                 runId=run.pk)
    return run


def build_run(descriptor: RunDescriptor, document: Any, resolved: Resolved, facts: Facts, actor: Actor) -> Run:
    """The row of a run that was found good, not stored yet."""
    assert facts.workload is not None and facts.base_model is not None  # noqa: S101 - a valid descriptor has both
    return Run(
        id=run_id_of(facts.workload, descriptor.submission_id), workload_id=facts.workload.id,
        phase="RESOLVING_DATASET", method=resolved.method, base_model=facts.base_model.entry.repository,
        base_revision=facts.base_model.revision, config=resolved.config, config_hash=resolved.config_hash,
        execution=resolved.execution, stated=list(resolved.stated), references=resolved.references,
        descriptor=document, grader=_grader(descriptor, facts),
        description=descriptor.description or "",
        config_name=descriptor.config_name or "", warnings=list(resolved.warnings),
        submission_id=descriptor.submission_id or "", submission_digest=sha256_json(document),
        total_steps=resolved.total_steps, predicted_memory=predicted_memory(resolved, facts), smoke=resolved.smoke,
        pause_at_step=descriptor.pause_at_step, created_by=actor.name)


def _grader(descriptor: RunDescriptor, facts: Facts) -> str:
    """The one text of the run's own grader."""
    assert facts.workload is not None  # noqa: S101 - a valid descriptor has one
    return available_grader(descriptor.grader, namespace=facts.workload.namespace) if descriptor.grader else ""


@transaction.atomic
def store_run(run: Run, actor: Actor) -> None:
    """Admit the run. Raises IntegrityError where it is there already, and what its workload refuses."""
    run.save(force_insert=True)
    events.record("run", run.pk, "run.submitted", actor=actor,
                  data={"phase": run.phase, "configHash": run.config_hash, "workload": run.workload_id})
    check_takes_work(run.workload_id)
    start_analyses(run, actor=actor)
    doorbell.ring_control()
