"""Rows of evaluations: the evaluation, its answers, and one-input trials of a model."""

from django.db import models

from optimize_site.kernel.ids import new_id
from registry.models import Version, Workload


class Work(models.Model):
    """What an evaluation and a trial share: a place in the queue, a lease, a failure."""

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


class Evaluation(Work):
    """One model scored over one dataset by one grader. The score belongs to the evaluation, not to the model."""

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="evaluations")
    model = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="evaluations")
    dataset = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="+")
    content_hash = models.CharField(max_length=64)
    grader = models.CharField(max_length=300)
    settings = models.JSONField(default=dict)
    base_model = models.CharField(max_length=200)
    base_revision = models.CharField(max_length=80, blank=True)
    chat_template_sha256 = models.CharField(max_length=64, blank=True)
    description = models.TextField(blank=True)
    num_rows = models.IntegerField(default=0)
    num_answered = models.IntegerField(default=0)
    num_scored = models.IntegerField(default=0)
    num_unscored = models.IntegerField(default=0)
    mean_score = models.FloatField(null=True)
    report = models.JSONField(null=True)
    submission_id = models.CharField(max_length=128, blank=True)

    class Meta:
        indexes = [models.Index(fields=["model", "content_hash", "grader"]),
                   models.Index(fields=["workload", "created_at"])]


class Prediction(models.Model):
    """One row's answer and its verdict; `score` is empty where the grader gave none."""

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="predictions")
    position = models.IntegerField()
    prompt = models.JSONField()
    expected = models.TextField()
    answer = models.TextField()
    score = models.FloatField(null=True)
    is_exact = models.BooleanField(null=True)
    fields = models.JSONField(default=dict)
    explanation = models.TextField(blank=True)
    unscored_cause = models.CharField(max_length=40, blank=True)
    prompt_tokens = models.IntegerField(default=0)
    completion_tokens = models.IntegerField(default=0)
    chat_template_sha256 = models.CharField(max_length=64)
    base_revision = models.CharField(max_length=80)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["evaluation", "position"], name="one_answer_per_row")]


class Trial(Work):
    """One input tried on a model, with the base model's answer beside it."""

    model = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="+")
    messages = models.JSONField()
    settings = models.JSONField(default=dict)
    answers = models.JSONField(default=dict)
