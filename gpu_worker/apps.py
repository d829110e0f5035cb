"""GPU worker as a Django app."""

from django.apps import AppConfig


class GpuWorkerConfig(AppConfig):
    name = "gpu_worker"
    verbose_name = "GPU worker"

    def ready(self) -> None:
        from gpu_worker.short_jobs import ShortJobRunner
        from optimize_site.kernel import short_jobs

        short_jobs.provide(ShortJobRunner())
