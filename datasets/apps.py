"""Datasets as a Django app."""

from django.apps import AppConfig


class DatasetsConfig(AppConfig):
    name = "datasets"
    verbose_name = "Datasets"

    def ready(self) -> None:
        """Say what it notes about bytes to who collects garbage."""
        from datasets.garbage import NOTES, forget_bytes, stale_overlaps, unknown_analyses
        from optimize_site.kernel.garbage import BOOKKEEPING, COLLECTORS, GONE

        BOOKKEEPING.update(NOTES)
        GONE.append(forget_bytes)
        COLLECTORS += [unknown_analyses, stale_overlaps]
