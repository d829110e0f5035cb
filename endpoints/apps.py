"""Endpoints as a Django app."""

from django.apps import AppConfig


class EndpointsConfig(AppConfig):
    name = "endpoints"
    verbose_name = "Endpoints"

    def ready(self) -> None:
        """Show the claims of trials in `capacity`."""
        from endpoints.claims import list_claims
        from optimize_site.kernel import box

        box.CLAIM_LISTERS.append(list_claims)
