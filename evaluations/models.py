"""Rows of evaluations: the evaluation and its answers."""

from django.db import models
from django.db.models import Q

from optimize_site.kernel.work_row import WorkRow
from registry.models import Version, Workload
from runs.models import Run, Snapshot


class Evaluation(WorkRow):
    """One model scored over one dataset by one grader. The score belongs to the evaluation, not to the model.

    Where the grader is a model, `judge` is that and `grader_instructions` what it is told, stated or inherited: scores
    under different instructions are by different graders.
    `model` is empty while the evaluation waits for a base model's first preparation, which registers it.
    """

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="evaluations")
    model = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="evaluations")
    dataset = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="+")
    content_hash = models.CharField(max_length=64)
    grader = models.CharField(max_length=2000)
    judge = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="+")
    grader_instructions = models.TextField(blank=True)
    instructions_source = models.CharField(max_length=12, blank=True)
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
        indexes = [models.Index(fields=["model", "content_hash"]),
                   models.Index(fields=["workload", "created_at"])]
        constraints = [models.CheckConstraint(
            name="evaluation_has_a_model_once_it_runs",
            condition=Q(model__isnull=False) | Q(phase__in=["AWAITING_BASE_MODEL", "FAILED", "CANCELLED"]))]

    @property
    def model_name(self) -> str:
        """The model's reference; the base model's repository until it was prepared."""
        return self.model.reference if self.model is not None else self.base_model

    @property
    def num_done(self) -> int:
        """The rows that the present phase is through with: judged while they are being scored, else answered."""
        is_answered = self.phase in ("AWAITING_GRADER", "SCORING")
        return self.num_scored + self.num_unscored if is_answered else self.num_answered


class PredictionQuerySet(models.QuerySet["Prediction"]):
    """Answers by what their grader said of them."""

    def unjudged(self) -> "PredictionQuerySet":
        """Those that the grader was not asked for yet."""
        return self.filter(score=None, unscored_cause="")

    def unscored(self) -> "PredictionQuerySet":
        """Those that have no score, and a cause why."""
        return self.filter(score=None).exclude(unscored_cause="")


class Prediction(models.Model):
    """One row's answer and its verdict; `score` is empty where the grader gave none.

    `unscored_cause` then says why; where that is empty too the grader was not asked yet. `finish` says how the answer
    ended.
    """

    evaluation = models.ForeignKey(Evaluation, on_delete=models.CASCADE, related_name="predictions")
    position = models.IntegerField()
    prompt = models.JSONField()
    expected = models.TextField()
    answer = models.TextField()
    finish = models.CharField(max_length=20, blank=True)
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

    objects = PredictionQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["evaluation", "position"], name="one_answer_per_row")]


class Mark(models.Model):
    """What a person says of one answer: 1 is right, 0 wrong. It holds for that answer to that row, whoever graded it.
    """

    prediction = models.ForeignKey(Prediction, on_delete=models.CASCADE, related_name="marks")
    content_hash = models.CharField(max_length=64)
    position = models.IntegerField()
    score = models.FloatField()
    by = models.CharField(max_length=150)
    at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["prediction", "by"], name="one_mark_by_a_person"),
                       models.CheckConstraint(name="marks_are_scores", condition=Q(score__gte=0) & Q(score__lte=1))]
        indexes = [models.Index(fields=["content_hash", "position"])]


class Pipeline(WorkRow):
    """Train and evaluate stages in order, in one submission; each stage is work of its own, with its own ID."""

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="pipelines")
    descriptor = models.JSONField()
    description = models.TextField(blank=True)
    submission_id = models.CharField(max_length=128, blank=True)
    submission_digest = models.CharField(max_length=64, blank=True)


class Stage(models.Model):
    """One stage of a pipeline, and the run or evaluation that carries it out; `number` counts its tries."""

    class State(models.TextChoices):
        PENDING = "PENDING"
        RUNNING = "RUNNING"
        COMPLETED = "COMPLETED"
        FAILED = "FAILED"
        CANCELLED = "CANCELLED"
        SKIPPED = "SKIPPED"

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="stages")
    position = models.IntegerField()
    name = models.CharField(max_length=64)
    type = models.CharField(max_length=16)
    state = models.CharField(max_length=12, choices=State.choices, default=State.PENDING)
    number = models.IntegerField(default=1)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, null=True, related_name="+")
    evaluation = models.ForeignKey(Evaluation, on_delete=models.PROTECT, null=True, related_name="+")
    model = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="+")
    mean_score = models.FloatField(null=True)
    reason = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["pipeline", "position"], name="stages_have_an_order"),
                       models.UniqueConstraint(fields=["pipeline", "name"], name="stages_have_names")]


class Comparison(WorkRow):
    """Models that came from one snapshot, scored over the same rows by the same grader under one token cap.

    `fan` is how many branches the snapshot had when they were asked for.
    """

    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="comparisons")
    source = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="comparisons")
    dataset = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="+")
    grader = models.CharField(max_length=2000)
    max_new_tokens = models.IntegerField(default=0)
    fan = models.IntegerField(null=True)
    submission_id = models.CharField(max_length=128, blank=True)
    submission_digest = models.CharField(max_length=64, blank=True)


class Target(models.Model):
    """One model of a comparison: the source itself, a candidate, or a branch's."""

    class State(models.TextChoices):
        PENDING = "PENDING"
        RUNNING = "RUNNING"
        COMPLETED = "COMPLETED"
        FAILED = "FAILED"

    comparison = models.ForeignKey(Comparison, on_delete=models.CASCADE, related_name="targets")
    position = models.IntegerField()
    kind = models.CharField(max_length=12)
    state = models.CharField(max_length=12, choices=State.choices, default=State.PENDING)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="+")
    model = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="+")
    evaluation = models.ForeignKey(Evaluation, on_delete=models.PROTECT, null=True, related_name="+")
    mean_score = models.FloatField(null=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["comparison", "position"], name="targets_have_an_order")]
