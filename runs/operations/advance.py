"""The control steps of a run, one a phase. Each is idempotent: it looks at the rows and moves the run on if it can."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.db import InterfaceError, OperationalError, transaction

from datasets.queries import dataset_files
from optimize_site.kernel import doorbell
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.errors import OperationError, PhaseConflict, Problem
from optimize_site.kernel.line import end_of_line
from optimize_site.kernel.phases import move
from registry.base_model_queries import base_model_state
from registry.errors import NamespaceArchived
from registry.models import Version
from runs import queries
from runs.data_checks import check_prepared
from runs.lookups import base_model_facts, dataset_facts, present_devices
from runs.models import Run
from runs.operations.ending import fail_run
from runs.operations.failing_steps import note_failed_step
from runs.operations.holds import RUN, let_go
from runs.operations.judging import hold_judges, judges_of, living_judges, note_wait
from runs.operations.length_check import check_lengths, opening_of
from runs.operations.recording import register_adapter
from runs.operations.resting import failure_words, is_pausing, rest
from runs.operations.sampler_room import prepared_sampler_problem
from runs.operations.smoke import judgement_of, unjudged_columns
from runs.phases import BEFORE_A_JOB, PHASES

log = logging.getLogger(__name__)
MOST_NAMED = 20
"""Missing files that a failure names."""


def advance_all() -> None:
    """One pass over all open runs; one run's fault does not keep the others from theirs."""
    for pk in queries.open_runs().exclude(phase__in=PHASES.active).values_list("pk", flat=True):
        try:
            advance_run(pk)
        except (OperationalError, InterfaceError):
            raise  # the database does not answer: no fault of this run's step, and none of the others can be taken
        except Exception as error:  # logged with its traceback; the reconciler comes back to it
            log.exception("run not advanced", extra={"action": "run_not_advanced", "run": pk})
            note_failed_step(pk, error)


def advance_run(run_id: str) -> None:
    """Take every control step that is due. Somebody else taking one at the same time is no error."""
    while True:
        run = queries.all_runs().get(pk=run_id)
        before = run.phase
        try:
            _step(run)
        except PhaseConflict as conflict:
            log.info("run already moved", extra={"action": "run_moved", "run": run_id, "reason": conflict.detail})
        if Run.objects.values_list("phase", flat=True).get(pk=run_id) == before:
            return


def _step(run: Run) -> None:
    if run.cancel_requested_at is not None and run.phase in BEFORE_A_JOB:
        _move(run, "CLEANING_UP", reason="cancelled", failure_code="", failure_reason="", failure_hint="",
              failure_evidence={})
        return
    if is_pausing(run) and run.phase in BEFORE_A_JOB:
        # Asked for in the moment in which its job ended: the job never knew.
        rest(run, ended=failure_words(run) or "The job had ended before it was asked to save.")
        return
    step = STEPS.get(run.phase)
    if step is not None:
        step(run)


def _move(run: Run, to: str, *, reason: str = "", **columns: Any) -> None:
    move(run, to, phases=PHASES, actor=SYSTEM, reason=reason, **columns)


def resolve_dataset(run: Run) -> None:
    """Read the manifests: every file of every dataset must be here."""
    for name in ("dataset", "validationDataset"):
        reference = run.references.get(name)
        if reference is None:
            continue
        missing = [file for file in dataset_files(Version.objects.get(pk=reference["versionId"]))
                   if not Path(file).is_file()]
        if missing:
            fail_run(run, code="dataset_missing", reason=f"{len(missing)} of the files of {reference['reference']} are "
                     f"not on this box any more, the first of them {missing[0]}.", hint="Register the dataset again.",
                     evidence={"dataset": reference["reference"], "missing": missing[:MOST_NAMED]})
            return
    _move(run, "AWAITING_BASE_MODEL")


def await_base_model(run: Run) -> None:
    """Wait until the base model is ready; fail where it will not be."""
    state = base_model_state(run.base_model)
    if state is None or not (state.is_selected or state.is_refused):
        fail_run(run, code="base_model_deselected", reason=f"{run.base_model} was deselected while the run waited for "
                 "it.", hint=f"Select it again with `./optimize base-models select {run.base_model}`.",
                 evidence={"baseModel": run.base_model, "phase": state.phase if state else None})
    elif state.is_refused:
        fail_run(run, code="base_model_unusable", reason=f"{run.base_model} could not be prepared: {state.failure}",
                 hint=f"See `./optimize base-models get {run.base_model}`.",
                 evidence={"baseModel": run.base_model, "phase": state.phase, "failure": str(state.failure)})
    elif state.is_ready:
        _take_base_model(run, state.revision)


def _take_base_model(run: Run, revision: str) -> None:
    if run.base_revision and run.base_revision != revision:
        fail_run(run, code="base_model_moved", reason=f"The run was admitted for {run.base_model} at "
                 f"{run.base_revision}, and the box now holds {revision}.", hint="Submit it again.",
                 evidence={"baseModel": run.base_model, "admitted": run.base_revision, "present": revision})
        return
    problem = next(_prepared_problems(run), None) or prepared_sampler_problem(run)
    if problem is not None:
        fail_run(run, code=problem.code, reason=problem.message, hint=problem.hint,
                 evidence={"setting": problem.path})
        return
    references = run.references | {"baseModel": run.references["baseModel"] | {"revision": revision}}
    taken = {"base_revision": revision, "references": references}
    with transaction.atomic():
        if not judges_of(run):
            _queue(run, **taken)
        elif hold_judges(run):
            _move(run, "DEPLOYING_GRADER", wait_reason="", **taken)


def _queue(run: Run, **columns: Any) -> None:
    """Into the line for a device."""
    with transaction.atomic():
        _move(run, "AWAITING_CAPACITY", queued_at=end_of_line(), wait_reason="", length_check=opening_of(run),
              **columns)
        doorbell.ring_devices()


def deploy_judges(run: Run) -> None:
    """Until every judge of the reward has a device and is being started on it."""
    held = living_judges(run)
    if held is None:
        return
    if all(judge.state in {"starting", "ready"} for judge in held):
        _move(run, "AWAITING_GRADER", wait_reason="")
    else:
        note_wait(run, held)


def await_judges(run: Run) -> None:
    """Until every judge of the reward answers."""
    held = living_judges(run)
    if held is None:
        return
    if all(judge.state == "ready" for judge in held):
        _queue(run)
    else:
        note_wait(run, held)


def _prepared_problems(run: Run) -> Iterator[Problem]:
    """Prepared token rows that the base model, now that its template is known, does not render alike."""
    state = base_model_state(run.base_model)
    for name, path in (("dataset", "config.dataset"), ("validationDataset", "config.data.validationDataset")):
        reference = run.references.get(name)
        if reference is not None and state is not None:
            dataset = dataset_facts(Version.objects.get(pk=reference["versionId"]), stated=reference["stated"])
            yield from check_prepared(path, dataset, base_model_facts(state))


def await_device(run: Run) -> None:
    """While it waits for a device: see whether one can ever come, and whether its rows fit; fail where not."""
    if living_judges(run) is None:
        return
    profile, wanted = run.execution["deviceProfile"], run.execution["gpus"]
    present = next((device.count for device in present_devices() if device.profile == profile), 0)
    if present < wanted:
        fail_run(run, code="devices_gone", reason=f"The run waits for {wanted} device{'' if wanted == 1 else 's'} of "
                 f"the profile {profile}, and this box now has {present}.",
                 hint="Bring the devices back and start it again, or state another execution.deviceProfile.",
                 evidence={"deviceProfile": profile, "wanted": wanted, "present": present})
        return
    problems = check_lengths(run)
    if problems:
        fail_run(run, code=problems[0].code, reason=" ".join(problem.message for problem in problems),
                 hint=problems[0].hint, evidence={"lengthCheck": run.length_check})


def record_model(run: Run) -> None:
    """Register the final adapter as a model; a second time finds the first. A smoke check leaves its verdict."""
    if run.smoke is not None:
        _end_smoke(run)
        return
    final = run.snapshots.filter(is_final=True, has_weights=True).order_by("-attempt").first()
    if final is None:
        fail_run(run, code="adapter_missing", reason="The job said it was finished and left no final snapshot.",
                 hint=f"Its log says more: `./optimize runs log {run.pk[:12]}`. Branch from one of its saves, or start "
                 "it again.", evidence={"saves": [{"step": save.step, "isFinal": save.is_final}
                                                  for save in queries.snapshots_of(run)]})
        return
    try:
        version = register_adapter(run, final)
    except NamespaceArchived as error:
        # Archived while the run trained: its adapter is not lost, it registers once the namespace is brought back.
        _wait_to_record(run, f"{error.detail} {error.hint}")
        return
    except OperationError as error:
        fail_run(run, code=error.code, reason=f"The adapter could not be registered: {error.detail}", hint=error.hint,
                 evidence={"snapshotId": final.pk, "step": final.step})
        return
    except OSError as error:
        # The adapter is trained and safe where it lies; the reconciler tries again once there is room.
        _wait_to_record(run, f"The adapter could not be stored yet: {error}.")
        return
    _move(run, "CLEANING_UP", model=version, data={"modelId": version.pk, "model": version.reference})


def _end_smoke(run: Run) -> None:
    verdict = judgement_of(run)
    if verdict:
        _move(run, "CLEANING_UP", data={"verdict": verdict})
    else:
        fail_run(run, code="verdict_missing", reason="The job said it was finished and gave no verdict.",
                 hint=f"Its log says more: `./optimize runs log {run.pk[:12]}`. Start it again.",
                 evidence={"updates": run.observed_step, "smoke": run.smoke})


def _wait_to_record(run: Run, reason: str) -> None:
    Run.objects.filter(pk=run.pk).update(wait_reason=reason[:300])
    log.warning("adapter not stored", extra={"action": "adapter_not_stored", "run": run.pk, "error": reason})


def clean_up(run: Run) -> None:
    """Nothing is held any more, a branch's source neither: the terminal phase follows from what the run has."""
    let_go(holder_kind=RUN, holder_id=run.pk)
    if run.model_id or judgement_of(run):
        _move(run, "COMPLETED")
    elif run.failure_code:
        _move(run, "FAILED", reason=run.failure_reason, **unjudged_columns(run))
    else:
        _move(run, "CANCELLED", **unjudged_columns(run))


STEPS: dict[str, Callable[[Run], None]] = {
    "RESOLVING_DATASET": resolve_dataset,
    "AWAITING_BASE_MODEL": await_base_model,
    "DEPLOYING_GRADER": deploy_judges,
    "AWAITING_GRADER": await_judges,
    "AWAITING_CAPACITY": await_device,
    "RECORDING": record_model,
    "CLEANING_UP": clean_up,
}
