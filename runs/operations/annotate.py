"""Notes on a run, outside its identity."""

from django.db import transaction

from optimize_site.kernel import events
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import InvalidInput
from runs.models import Run

MAX_NAME, MAX_TEXT = 120, 10_000


@transaction.atomic
def annotate_run(run: Run, *, actor: Actor, description: str | None = None, config_name: str | None = None) -> Run:
    """Set the description or the configuration's name; an empty text clears it, None leaves it. At any time."""
    actor.require("operator")
    _refuse_long("description", description, MAX_TEXT)
    _refuse_long("configName", config_name, MAX_NAME)
    stated = {"description": description, "config_name": config_name}
    changed = {name: value for name, value in stated.items() if value is not None and value != getattr(run, name)}
    if changed:
        Run.objects.filter(pk=run.pk).update(**changed)
        events.record("run", run.pk, "run.annotated", actor=actor, data=changed)
        run.refresh_from_db()
    return run


def _refuse_long(name: str, text: str | None, most: int) -> None:
    if text is not None and (len(text) > most or "\0" in text):
        raise InvalidInput(f"{name} has {len(text)} characters; it may have at most {most} and no NUL.",
                           code="wrong_length")
