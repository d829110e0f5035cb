"""Pages of datasets, one a module; importing them registers what home and search show of datasets."""

from datasets.views import changes, detail, lists, shown

__all__ = ["changes", "detail", "lists", "shown"]
