"""Runs as a Django app."""

from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"
    verbose_name = "Runs"

    def ready(self) -> None:
        from django.db.models.signals import post_migrate

        from optimize_site.kernel import box
        from optimize_site.kernel.garbage import BOOKKEEPING, COLLECTORS
        from optimize_site.kernel.in_progress import LISTERS
        from optimize_site.kernel.judges import HOLDERS
        from runs.garbage import uncommitted_saves
        from runs.in_progress import candidates_in_progress, runs_in_progress
        from runs.operations.judging import wants_judges
        from runs.queries import KIND, claims_of_runs
        from runs.rollouts import text_index

        box.CLAIM_LISTERS.append(claims_of_runs)
        box.FACTS["rolloutSearch"] = text_index.facts
        post_migrate.connect(text_index.make_text_index, sender=self)
        HOLDERS[KIND] = wants_judges
        LISTERS.extend([runs_in_progress, candidates_in_progress])
        COLLECTORS.append(uncommitted_saves)
        BOOKKEEPING.update({"runs.Metric", "runs.Rollout", "runs.RolloutStep"})
