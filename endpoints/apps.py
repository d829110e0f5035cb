"""Endpoints as a Django app."""

from django.apps import AppConfig


class EndpointsConfig(AppConfig):
    name = "endpoints"
    verbose_name = "Endpoints"

    def ready(self) -> None:
        """Show the claims of trials and judges in `capacity`, and open trials to who archives a workload; keep
        judges for the apps below, and offer `model:` graders.
        """
        from endpoints.claims import list_claims, list_judge_claims
        from endpoints.in_progress import trials_in_progress
        from endpoints.operations.judges import JudgeKeeper, canonical
        from optimize_site.kernel import box, graders, judges
        from optimize_site.kernel.in_progress import LISTERS

        judges.provide(JudgeKeeper())
        graders.provide_target("model", canonical)
        box.CLAIM_LISTERS.extend([list_claims, list_judge_claims])
        LISTERS.append(trials_in_progress)
