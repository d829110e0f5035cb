"""The Celery app. Messages are doorbells: they carry no facts."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "optimize_site.settings")

RECONCILE_SECONDS = 5.0

app = Celery("optimize")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["gpu_worker"])
# Celery would close the database's connection after every task. Ours say themselves how long they keep it.
app.conf["CELERY_DB_REUSE_MAX"] = 1_000_000
app.conf.beat_schedule = {
    "reconcile": {
        "task": "gpu_worker.advance",
        "schedule": RECONCILE_SECONDS,
        "options": {"queue": "control", "expires": RECONCILE_SECONDS},
    },
}
