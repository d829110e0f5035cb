"""Rows of the data: the example sets behind dataset versions, and uploads in progress."""

from django.db import models
from django.db.models import Q

from optimize_site.kernel.ids import new_id
from optimize_site.kernel.work_row import WorkRow


class ExampleSet(models.Model):
    """A fixed set of examples, identified by SHA-256 over its lines; several versions may share one.

    Its files, and the lines that are noted of them, are those it came in first; a version that came in other files
    keeps its `OwnFiles`.

    `shards` lists `{"path", "sha256", "bytes", "examples"}` in order; `findings` is what registration noticed;
    `details` holds what only one format has, such as the tokenizer of prepared rows or the images that rows name.
    """

    content_hash = models.CharField(max_length=64, primary_key=True)
    format = models.CharField(max_length=40)
    num_examples = models.BigIntegerField()
    num_tool_rows = models.BigIntegerField(null=True)
    num_images = models.BigIntegerField(default=0)
    num_blank_lines = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField()
    shards = models.JSONField(default=list)
    statistics = models.JSONField(default=dict)
    findings = models.JSONField(default=list)
    details = models.JSONField(default=dict)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)


class OwnFiles(models.Model):
    """The files of a version that holds the examples of another version in files of other names or cuts.

    Its columns are those of its example set, which are of the files that these examples came in first.
    """

    version = models.OneToOneField("registry.Version", on_delete=models.CASCADE, primary_key=True, related_name="+")
    num_blank_lines = models.BigIntegerField(default=0)
    size_bytes = models.BigIntegerField()
    shards = models.JSONField(default=list)
    findings = models.JSONField(default=list)

    class Meta:
        verbose_name_plural = "own files"


class Image(models.Model):
    """An image that rows may name, kept once by the SHA-256 of its bytes; those were looked at when they came in."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    media_type = models.CharField(max_length=20)
    width = models.IntegerField()
    height = models.IntegerField()
    size_bytes = models.BigIntegerField()
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)


class Shard(models.Model):
    """A file of rows that was examined: what it holds, kept so that the same bytes are never parsed again.

    `rows_hash` is SHA-256 over its rows alone; `found` is the state of a `datasets.stretches.Stretch`.
    """

    sha256 = models.CharField(max_length=64, primary_key=True)
    rows_hash = models.CharField(max_length=64)
    size_bytes = models.BigIntegerField()
    num_examples = models.BigIntegerField()
    found = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)


class Upload(models.Model):
    """A dataset on its way in, shard by shard; kept for some days so that a stopped upload goes on where it was.

    `planned` lists `{"path", "sha256", "bytes", "isHashed"}` of every shard in order, as the sender announced them; one
    that was announced without its SHA-256 has it once it came. They are not collected as long as the row is there.
    """

    class Phase(models.TextChoices):
        OPEN = "OPEN"
        REGISTERED = "REGISTERED"

    id = models.CharField(max_length=64, primary_key=True, default=new_id)
    phase = models.CharField(max_length=12, choices=Phase.choices, default=Phase.OPEN)
    reference = models.CharField(max_length=130)
    alias = models.CharField(max_length=64, blank=True)
    format = models.CharField(max_length=40, blank=True)
    description = models.TextField(blank=True)
    lineage = models.JSONField(default=dict)
    planned = models.JSONField(default=list)
    version_id = models.CharField(max_length=64, blank=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["phase", "expires_at"])]


class Analysis(WorkRow):
    """What the examples of a dataset look like under one base model: lengths, trained tokens, refused rows.

    One for each set of examples, base model commit and version of the product; `report` is its result.
    """

    examples = models.ForeignKey(ExampleSet, on_delete=models.PROTECT, related_name="analyses")
    repository = models.CharField(max_length=200)
    revision = models.CharField(max_length=80)
    product_version = models.CharField(max_length=40)
    report = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "analyses"
        constraints = [
            models.UniqueConstraint(fields=["examples", "repository", "revision", "product_version"],
                                    name="one_analysis_per_examples_and_model"),
            models.CheckConstraint(condition=Q(lease_token=None) | Q(phase__in=["STARTING", "RUNNING"]),
                                   name="analysis_is_leased_while_active"),
        ]
