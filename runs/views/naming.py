"""What a run is called and how far it is, as its pages show it."""

from runs.models import Run
from runs.pages import share_of, title_of


def title(run: Run) -> str:
    """What a run is called."""
    return title_of(run.config_name, run.description, run.pk)


def share(run: Run) -> float | None:
    """How far the run's present part is."""
    return share_of(run.phase, run.observed_step, run.total_steps, run.stage)
