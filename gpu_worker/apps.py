"""GPU worker as a Django app."""

from django.apps import AppConfig


class GpuWorkerConfig(AppConfig):
    name = "gpu_worker"
    verbose_name = "GPU worker"
