"""Pages of runs, one a module; importing them registers what home, search and datasets show of runs."""

from runs.views import (
    branching,
    compare,
    continuing,
    curves,
    detail,
    epochs,
    lifecycle,
    lineage,
    listing,
    new,
    preview,
    rewards,
    rollouts,
    shown,
    snapshots,
    verify,
)

__all__ = ["branching", "compare", "continuing", "curves", "detail", "epochs", "lifecycle", "lineage", "listing", "new",
           "preview", "rewards", "rollouts", "shown", "snapshots", "verify"]
