"""Rows of asking a model: trials."""

from django.db import models

from optimize_site.kernel.work_row import WorkRow
from registry.models import Version


class Trial(WorkRow):
    """One input tried on a model, with the base model's answer beside it."""

    model = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="+")
    messages = models.JSONField()
    settings = models.JSONField(default=dict)
    answers = models.JSONField(default=dict)
