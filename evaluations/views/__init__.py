"""Pages of workloads, models, evaluations, pipelines and comparisons; importing them registers what home, box and
search show of them."""

from evaluations.views import comparisons, evaluations, lifecycle_shown, models, pipelines, shown, workloads

__all__ = ["comparisons", "evaluations", "lifecycle_shown", "models", "pipelines", "shown", "workloads"]
