"""The judges of a reinforcement run's reward: started before its devices are claimed, given back when it rests or ends.
"""

from collections.abc import Sequence

from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.judges import Held, keeper
from runs import queries
from runs.models import Run
from runs.operations.ending import fail_run
from runs.phases import PHASES

WANTED = frozenset({"DEPLOYING_GRADER", "AWAITING_GRADER", "AWAITING_CAPACITY", *PHASES.active})
"""Phases in which a run has use for its judges."""


def judges_of(run: Run) -> list[str]:
    """The model versions that judge the run's completions, each once."""
    named = [term["judge"]["modelId"] for term in run.references.get("reward") or [] if term.get("judge")]
    return list(dict.fromkeys(named))


def wants_judges(run_id: str) -> bool:
    """Whether the run still has use for its judges; what holds them asks again and again."""
    return Run.objects.filter(pk=run_id, phase__in=WANTED).exists()


def hold_judges(run: Run) -> bool:
    """Have the run's judges started; False where the box has no room for them any more and the run failed over it."""
    execution = run.execution
    try:
        keeper().hold(queries.KIND, run.pk, judges_of(run), beside=execution["deviceProfile"],
                      devices=execution["gpus"], created_by=run.created_by)
    except OperationError as error:
        fail_run(run, code=error.code, reason=error.detail, hint=error.hint,
                 evidence={"judges": list(judges_of(run)), "deviceProfile": execution["deviceProfile"]})
        return False
    return True


def living_judges(run: Run) -> Sequence[Held] | None:
    """The run's judges; None where one failed for good and the run with it."""
    wanted = set(judges_of(run))
    held = [judge for judge in keeper().held(queries.KIND, run.pk) if judge.model_id in wanted] if wanted else []
    failed = next((judge for judge in held if judge.state == "failed"), None)
    if failed is None:
        return held
    fail_run(run, code=failed.code or "grader_failed", reason=f"The judge of the reward failed: {failed.reason}",
             hint=failed.hint, evidence={"judge": failed.model_id})
    return None


def note_wait(run: Run, held: Sequence[Held]) -> None:
    """Keep what the first judge that is not ready waits for."""
    reason = next((judge.reason for judge in held if judge.state != "ready"), "")
    if reason != run.wait_reason:
        Run.objects.filter(pk=run.pk).update(wait_reason=reason[:300])
