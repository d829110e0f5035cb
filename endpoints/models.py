"""Rows of asking a model: trials, and judges that are held to be asked."""

from django.db import models
from django.db.models import Q

from optimize_site.kernel.work_row import WorkRow
from registry.models import Version


class Trial(WorkRow):
    """One input tried on a model, with the base model's answer beside it."""

    model = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="+")
    messages = models.JSONField()
    settings = models.JSONField(default=dict)
    answers = models.JSONField(default=dict)


class Judge(WorkRow):
    """A model held on a device to grade answers, for one run or one evaluation.

    It takes a slot of `profile`, of whose slots `leaves` stay free of judges for the holder's own job.
    """

    model = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="+")
    holder_kind = models.CharField(max_length=20)
    holder_id = models.CharField(max_length=64)
    profile = models.CharField(max_length=40)
    leaves = models.IntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["holder_kind", "holder_id", "model"],
                                               condition=Q(ended_at=None), name="one_judge_of_a_model_per_holder")]
        indexes = [models.Index(fields=["holder_kind", "holder_id"])]
