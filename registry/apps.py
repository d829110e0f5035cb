"""Registry as a Django app."""

from django.apps import AppConfig


class RegistryConfig(AppConfig):
    name = "registry"
    verbose_name = "Registry"

    def ready(self) -> None:
        """Offer base models' folders to who collects garbage."""
        from optimize_site.kernel.garbage import COLLECTORS
        from registry.garbage import unused_base_models

        COLLECTORS.append(unused_base_models)
