"""Notes on a run, outside its identity."""

from django.db import transaction

from optimize_site.kernel import events
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.notes import check_note
from runs.models import Run

MAX_NAME = 120


@transaction.atomic
def annotate_run(run: Run, *, actor: Actor, description: str | None = None, config_name: str | None = None) -> Run:
    """Set the description or the configuration's name; an empty text clears it, None leaves it. At any time.

    Raises InvalidInput for one that is too long.
    """
    actor.require("operator")
    check_note("description", description)
    check_note("configName", config_name, MAX_NAME)
    stated = {"description": description, "config_name": config_name}
    changed = {name: value for name, value in stated.items() if value is not None and value != getattr(run, name)}
    if changed:
        Run.objects.filter(pk=run.pk).update(**changed)
        events.record("run", run.pk, "run.annotated", actor=actor, data=changed)
        run.refresh_from_db()
    return run
