"""Rows that every app builds on: people and their tokens, devices and leases, attempts, events, blobs."""

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q

from optimize_site.kernel import clock


class User(AbstractUser):
    """Somebody with an account and one role."""

    class Role(models.TextChoices):
        VIEWER = "viewer", "Viewer: reads everything"
        OPERATOR = "operator", "Operator: registers data, starts and stops work"
        ADMIN = "admin", "Admin: also accounts, tokens and base models"

    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)


class Token(models.Model):
    """A bearer token, kept as a hash; `shown` is its visible beginning."""

    name = models.CharField(max_length=80)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    shown = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)


class DeviceQuerySet(models.QuerySet["Device"]):
    """Devices, told apart by what they are for."""

    def for_models(self) -> "DeviceQuerySet":
        """Those that train or answer: what people see as the box's devices. The host's own slots are none."""
        return self.exclude(kind=Device.HOST)


class Device(models.Model):
    """Something a job can run on: a GPU by its UUID, the box's processors as `cpu`, or `host`.

    `host` is where work runs that needs no model in memory, such as fetching one or measuring a dataset, so that it
    neither holds a device nor waits for one.
    """

    HOST = "host"
    uuid = models.CharField(max_length=80, primary_key=True)
    node = models.CharField(max_length=120)
    name = models.CharField(max_length=120)
    kind = models.CharField(max_length=8)
    profile = models.CharField(max_length=40)
    index = models.IntegerField(default=0)
    memory_bytes = models.BigIntegerField(default=0)
    host_memory_bytes = models.BigIntegerField(default=0)
    slots = models.IntegerField(default=1)
    is_present = models.BooleanField(default=True)
    seen_at = models.DateTimeField(null=True)

    objects = DeviceQuerySet.as_manager()


class Lease(models.Model):
    """One piece of work's hold on one slot of a device; `token` fences every later write of its holder.

    A lease is released only when the recorded process is dead, so an expired lease is not yet a free device.
    """

    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="leases")
    slot = models.IntegerField(default=0)
    holder_kind = models.CharField(max_length=20)
    holder_id = models.CharField(max_length=64)
    token = models.BigIntegerField()
    acquired_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["device", "slot"], condition=Q(released_at=None),
                                    name="one_live_lease_per_slot"),
        ]
        indexes = [models.Index(fields=["holder_kind", "holder_id"])]


class Attempt(models.Model):
    """One try at a piece of work: its process, its folder, how far its events were read, how it ended."""

    id = models.CharField(max_length=64, primary_key=True)
    holder_kind = models.CharField(max_length=20)
    holder_id = models.CharField(max_length=64)
    number = models.IntegerField()
    lease = models.ForeignKey(Lease, on_delete=models.PROTECT, related_name="attempts")
    pid = models.IntegerField(null=True)
    pid_started = models.BigIntegerField(null=True)
    events_offset = models.BigIntegerField(default=0)
    resumed_step = models.IntegerField(null=True)
    first_step = models.IntegerField(null=True)
    last_step = models.IntegerField(null=True)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=16, blank=True)
    exit = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["holder_kind", "holder_id", "number"], name="attempts_are_numbered"),
        ]


class Event(models.Model):
    """What happened, by whom, in order: the audit trail and what followers read."""

    id = models.BigAutoField(primary_key=True)
    subject_kind = models.CharField(max_length=24)
    subject_id = models.CharField(max_length=130)
    type = models.CharField(max_length=60)
    actor = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    data = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["subject_kind", "subject_id", "id"])]


class Blob(models.Model):
    """Bytes kept once, by their SHA-256; `held_at` is when somebody last put them or was told that they are here."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    size_bytes = models.BigIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    held_at = models.DateTimeField(default=clock.now, db_index=True)
