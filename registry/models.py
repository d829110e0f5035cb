"""Rows of the registry: namespaces, artifacts with versions and aliases, base models, workloads."""

from django.db import models
from django.db.models import Q

from optimize_site.kernel.ids import new_id


class Namespace(models.Model):
    """Groups the datasets, models and bundles of one piece of work; exists from the first registration."""

    name = models.CharField(max_length=64, primary_key=True)
    description = models.TextField(blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)


class Artifact(models.Model):
    """A named dataset, model or bundle."""

    class Kind(models.TextChoices):
        DATASET = "dataset"
        MODEL = "model"
        BUNDLE = "bundle"

    kind = models.CharField(max_length=8, choices=Kind.choices)
    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="artifacts")
    name = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "namespace", "name"], name="one_artifact_per_name"),
        ]

    @property
    def reference(self) -> str:
        return f"{self.namespace_id}/{self.name}"


class Version(models.Model):
    """An immutable version of an artifact. For a model, `id` is the model ID.

    `digest` is over the object listing (and the descriptor of a model); `content_hash` is a dataset's hash over its
    examples. `objects` lists `{"path", "sha256", "bytes"}`.
    """

    id = models.CharField(max_length=64, primary_key=True, default=new_id)
    artifact = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="versions")
    number = models.IntegerField()
    digest = models.CharField(max_length=64)
    content_hash = models.CharField(max_length=64, db_index=True)
    format = models.CharField(max_length=40)
    descriptor = models.JSONField(default=dict)
    objects_listing = models.JSONField(default=list)
    lineage = models.JSONField(default=dict)
    produced_by_kind = models.CharField(max_length=20, blank=True)
    produced_by_id = models.CharField(max_length=80, blank=True)
    description = models.TextField(blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["artifact", "number"], name="versions_are_numbered"),
            models.UniqueConstraint(fields=["artifact", "digest"], name="one_version_per_digest"),
        ]
        indexes = [models.Index(fields=["produced_by_kind", "produced_by_id"])]

    @property
    def reference(self) -> str:
        return f"{self.artifact.reference}:v{self.number}"


class Parent(models.Model):
    """One thing that a version came from: another version, or (`parent` empty) something that this box does not keep.

    `kind` says what it was to the child, such as `model/base` or `dataset/training`; `reference` is exact.
    """

    child = models.ForeignKey(Version, on_delete=models.CASCADE, related_name="parents")
    parent = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="children")
    kind = models.CharField(max_length=40)
    reference = models.CharField(max_length=300)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["child", "kind", "reference"], name="one_row_per_parent")]


class Alias(models.Model):
    """A movable name for one version of an artifact."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="aliases")
    name = models.CharField(max_length=64)
    version = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="aliases")
    epoch = models.IntegerField(default=1)
    moved_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "aliases"
        constraints = [models.UniqueConstraint(fields=["artifact", "name"], name="one_alias_per_name")]


class AliasMove(models.Model):
    """Append-only history of an alias; `version` is empty where it was removed, which closes an epoch."""

    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, related_name="alias_moves")
    name = models.CharField(max_length=64)
    version = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="+")
    epoch = models.IntegerField()
    actor = models.CharField(max_length=150)
    at = models.DateTimeField(auto_now_add=True)


class BaseModel(models.Model):
    """A catalog entry that somebody selected (or that admission looked at), and what preparing it found.

    `phase` moves through registry.phases; `lease_token` is set exactly while a preparation job holds a slot.
    """

    id = models.CharField(max_length=64, primary_key=True)
    repository = models.CharField(max_length=200, unique=True)
    phase = models.CharField(max_length=24, db_index=True)
    phase_since = models.DateTimeField(auto_now_add=True)
    phase_millis = models.JSONField(default=dict)
    lease_token = models.BigIntegerField(null=True)
    queued_at = models.DateTimeField(null=True)
    revision = models.CharField(max_length=80, blank=True)
    folder = models.CharField(max_length=200, blank=True)
    facts = models.JSONField(default=dict)
    progress = models.JSONField(default=dict)
    failure_code = models.CharField(max_length=40, blank=True)
    failure_reason = models.TextField(blank=True)
    cancel_requested_at = models.DateTimeField(null=True)
    num_attempts = models.IntegerField(default=0)
    version = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="+")
    selected_by = models.CharField(max_length=150, blank=True)
    selected_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)


class Workload(models.Model):
    """A task: the dataset and grader that judge it, and the models it refers to."""

    id = models.CharField(max_length=64, primary_key=True, default=new_id)
    name = models.CharField(max_length=64, unique=True)
    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="workloads")
    description = models.TextField(blank=True)
    evaluation_dataset = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="+")
    grader = models.CharField(max_length=2000, blank=True)
    grader_instructions = models.TextField(blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)


class WorkloadReference(models.Model):
    """Where a workload's `base`, `candidate` or `champion` points, since when, by whom, on what evidence."""

    class Name(models.TextChoices):
        BASE = "base"
        CANDIDATE = "candidate"
        CHAMPION = "champion"

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="references")
    name = models.CharField(max_length=10, choices=Name.choices)
    version = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="+")
    evidence = models.JSONField(default=dict)
    moved_by = models.CharField(max_length=150)
    moved_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workload", "name"], name="one_target_per_reference"),
            models.CheckConstraint(condition=Q(name__in=["base", "candidate", "champion"]), name="reference_is_known"),
        ]
