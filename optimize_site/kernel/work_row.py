"""The columns that every row of queued work has, whichever app keeps it."""

from django.db import models

from optimize_site.kernel.ids import new_id


class WorkRow(models.Model):
    """A place in the queue, a lease, a failure; `lease_token` is set exactly while a job holds a slot."""

    id = models.CharField(max_length=64, primary_key=True, default=new_id)
    phase = models.CharField(max_length=24, db_index=True)
    phase_since = models.DateTimeField(auto_now_add=True)
    phase_millis = models.JSONField(default=dict)
    lease_token = models.BigIntegerField(null=True)
    queued_at = models.DateTimeField(null=True)
    wait_reason = models.CharField(max_length=300, blank=True)
    num_attempts = models.IntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True)
    failure_code = models.CharField(max_length=40, blank=True)
    failure_reason = models.TextField(blank=True)
    failure_hint = models.TextField(blank=True)
    device_seconds = models.FloatField(default=0)
    checks = models.JSONField(default=list)
    stage = models.JSONField(default=dict)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
