"""Pages of workloads, models and evaluations; importing them registers what home, box and search show of them."""

from evaluations.views import evaluations, models, shown, workloads

__all__ = ["evaluations", "models", "shown", "workloads"]
