"""Endpoints as a Django app."""

from django.apps import AppConfig


class EndpointsConfig(AppConfig):
    name = "endpoints"
    verbose_name = "Endpoints"

    def ready(self) -> None:
        """Show the claims of trials in `capacity`, and open ones to who archives a workload."""
        from endpoints.claims import list_claims
        from endpoints.in_progress import trials_in_progress
        from optimize_site.kernel import box
        from optimize_site.kernel.in_progress import LISTERS

        box.CLAIM_LISTERS.append(list_claims)
        LISTERS.append(trials_in_progress)
