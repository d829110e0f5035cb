"""Rows of the data: the example sets behind dataset versions, and uploads in progress."""

from django.db import models


class ExampleSet(models.Model):
    """A fixed set of examples, identified by SHA-256 over its lines; several versions may share one.

    `shards` lists `{"path", "sha256", "bytes", "examples"}` in order; `findings` is what registration noticed.
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
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
