"""Verifying a run: everything it recorded and keeps, held against each other. Changes nothing."""

from typing import Any

from django.db import transaction

from optimize_site.kernel.auth import Actor
from runs.models import Run
from runs.operations.replay import replay
from runs.queries import all_runs
from runs.verify_files import check_files
from runs.verify_records import check_records


def verify_run(run: Run, *, replayed: bool = False, actor: Actor) -> dict[str, Any]:
    """What was checked and each disagreement: `{runId, phase, verified, checks: [{name, count, unit, problems[]}]}`.

    Reads every byte that the run keeps. A run at work may be verified too; its rows stand still for the first part.
    With `replayed` the newest stretch between two saves is trained once more, if nothing before disagrees. Raises
    Refused where that cannot be done.
    """
    actor.require("operator" if replayed else "viewer")
    with transaction.atomic():
        locked = all_runs().select_for_update(of=("self",)).get(pk=run.pk)
        checked = list(check_records(locked))
    checked += check_files(locked)
    if replayed and not any(check.problems for check in checked):
        checked.append(replay(locked))
    return {"runId": locked.pk, "phase": locked.phase, "verified": not any(check.problems for check in checked),
            "checks": [{"name": check.name, "count": check.count, "unit": check.unit, "problems": list(check.problems)}
                       for check in checked]}
