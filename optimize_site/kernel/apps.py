"""The kernel as a Django app."""

from django.apps import AppConfig


class KernelConfig(AppConfig):
    name = "optimize_site.kernel"
    label = "kernel"
    verbose_name = "Box"
