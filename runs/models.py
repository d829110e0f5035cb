"""Rows of a training run: the run itself, its metrics and its snapshots."""

from django.db import models
from django.db.models import Q

from optimize_site.kernel import clock
from optimize_site.kernel.ids import new_id
from registry.models import Version, Workload


class Run(models.Model):
    """One training run. It keeps its identity over all its attempts.

    `config` is the resolved configuration (hashed into `config_hash`), `execution` the resolved execution settings;
    `stated` lists the descriptor paths that the person wrote; `references` what was written and what it resolved to
    (`{"dataset": {"stated", "reference", "versionId", "contentHash", "numExamples"}, "validationDataset": …,
    "baseModel": {"repository", "revision", "entryId"}}`). `lease_token` is set exactly while a job holds a device.

    `pause` is the pause in progress or the one that stands: `{"checkpoint", "state", "requestedAt", "requestedBy",
    "savedStep", "reason", "resourcesReleased"}`. A branch has its `parent`, the `source_snapshot` it starts from, and
    how it was restored and why. `smoke` holds a smoke check's settings and verdict. `retention_due_at` says since when
    retention has to look at its saves: until it has looked at them after its end, and from each release of one on.
    """

    id = models.CharField(max_length=64, primary_key=True, default=new_id)
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="runs")
    phase = models.CharField(max_length=24, db_index=True)
    phase_since = models.DateTimeField(auto_now_add=True)
    phase_millis = models.JSONField(default=dict)
    lease_token = models.BigIntegerField(null=True)
    queued_at = models.DateTimeField(null=True)
    wait_reason = models.CharField(max_length=300, blank=True)

    method = models.CharField(max_length=8)
    base_model = models.CharField(max_length=200)
    base_revision = models.CharField(max_length=80, blank=True)
    config = models.JSONField()
    config_hash = models.CharField(max_length=64, db_index=True)
    execution = models.JSONField()
    stated = models.JSONField(default=list)
    references = models.JSONField(default=dict)
    descriptor = models.JSONField(default=dict)
    grader = models.CharField(max_length=2000, blank=True)
    description = models.TextField(blank=True)
    config_name = models.CharField(max_length=120, blank=True)
    warnings = models.JSONField(default=list)
    submission_id = models.CharField(max_length=128, blank=True)
    submission_digest = models.CharField(max_length=64, blank=True)

    stage = models.JSONField(default=dict)
    total_steps = models.IntegerField(null=True)
    observed_step = models.IntegerField(default=0)
    saved_step = models.IntegerField(null=True)
    summary = models.JSONField(default=dict)
    data_fit = models.JSONField(null=True)
    checks = models.JSONField(default=list)
    hparams = models.JSONField(null=True)
    engine_config = models.JSONField(null=True)
    engine_runtime = models.JSONField(null=True)
    device_seconds = models.FloatField(default=0)
    num_attempts = models.IntegerField(default=0)
    cancel_requested_at = models.DateTimeField(null=True)
    failure_code = models.CharField(max_length=40, blank=True)
    failure_reason = models.TextField(blank=True)
    failure_hint = models.TextField(blank=True)
    failure_evidence = models.JSONField(default=dict)
    model = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="+")

    length_check = models.JSONField(default=dict)
    predicted_memory = models.JSONField(null=True)
    smoke = models.JSONField(null=True)
    pause = models.JSONField(null=True)
    pause_at_step = models.IntegerField(null=True)
    saves_waiting = models.IntegerField(default=0)
    saves_skipped = models.IntegerField(default=0)
    retention_due_at = models.DateTimeField(null=True, default=clock.now)

    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="children")
    source_snapshot = models.ForeignKey("Snapshot", on_delete=models.PROTECT, null=True, related_name="branches")
    restore_mode = models.CharField(max_length=16, blank=True)
    restore_reason = models.TextField(blank=True)
    sweep_id = models.CharField(max_length=64, blank=True, db_index=True)
    sweep_point = models.JSONField(null=True)
    pipeline_id = models.CharField(max_length=64, blank=True, db_index=True)
    stage_name = models.CharField(max_length=64, blank=True)

    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["workload", "created_at"]),
                   models.Index(name="runs_retention_due", fields=["retention_due_at"],
                                condition=Q(retention_due_at__isnull=False))]
        constraints = [
            models.CheckConstraint(
                name="run_is_leased_exactly_while_active",
                condition=Q(lease_token__isnull=False, phase__in=["STARTING_JOB", "QUEUED", "PREPARING", "TRAINING",
                                                                  "PAUSING"])
                | (Q(lease_token__isnull=True)
                   & ~Q(phase__in=["STARTING_JOB", "QUEUED", "PREPARING", "TRAINING", "PAUSING"]))),
        ]


class Metric(models.Model):
    """What one optimizer update (or one validation after it) reported; a replayed step replaces its row."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="metrics")
    step = models.IntegerField()
    attempt = models.IntegerField()
    values = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "step"], name="one_metric_row_per_step")]


class MissedRow(models.Model):
    """A row of a smoke check's slice that the model did not reproduce: what was asked, expected and answered."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="missed")
    position = models.IntegerField()
    attempt = models.IntegerField()
    prompt = models.JSONField()
    expected = models.TextField(blank=True)
    answer = models.TextField(blank=True)
    finish = models.CharField(max_length=16)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "position"], name="one_missed_row_per_place")]


class Rollout(models.Model):
    """A completion that a reinforcement run sampled and scored; a replayed update replaces all of its own.

    `group` numbers the prompts of an update and `index` the completions of a prompt; `row` is the prompt's place in
    the dataset, `asked` its last message. `terms` lists `{"name", "score", "share", "cause", "explanation"}`; a score
    is null where the completion was left out of its group.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rollouts")
    attempt = models.IntegerField()
    step = models.IntegerField()
    group = models.IntegerField()
    index = models.IntegerField()
    row = models.IntegerField()
    prompt = models.JSONField()
    tools = models.JSONField(null=True)
    asked = models.TextField(blank=True)
    completion = models.TextField(blank=True)
    tokens = models.IntegerField()
    finish = models.CharField(max_length=16)
    score = models.FloatField(null=True)
    advantage = models.FloatField(null=True)
    excluded = models.BooleanField(default=False)
    terms = models.JSONField(default=list)

    class Meta:
        indexes = [models.Index(fields=["run", "row"])]
        constraints = [models.UniqueConstraint(fields=["run", "step", "group", "index"],
                                               name="one_rollout_per_place")]


class RolloutStep(models.Model):
    """An update whose completions are kept: how many, what they come to, how their figures are spread.

    `figures` are numbers by name; `histograms` is `{"total", "length", "terms": {name: …}}`.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="rollout_steps")
    attempt = models.IntegerField()
    step = models.IntegerField()
    count = models.IntegerField()
    figures = models.JSONField(default=dict)
    histograms = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "step"], name="rollouts_of_a_step_once")]


class Snapshot(models.Model):
    """A verified, immutable save of one attempt; `folder` is inside the attempt's folder.

    `pinned` and `swept` list kinds, `weights` and `trainingState`: what an operator keeps, what retention removed.
    `removed_at` is set once both are gone.
    """

    id = models.CharField(max_length=64, primary_key=True, default=new_id)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="snapshots")
    attempt = models.IntegerField()
    step = models.IntegerField()
    folder = models.CharField(max_length=300)
    has_weights = models.BooleanField(default=True)
    has_training_state = models.BooleanField(default=True)
    manifest_sha256 = models.CharField(max_length=64)
    state_manifest_sha256 = models.CharField(max_length=64, blank=True)
    size_bytes = models.BigIntegerField()
    is_final = models.BooleanField(default=False)
    epoch = models.FloatField(null=True)
    pinned = models.JSONField(default=list)
    swept = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "attempt", "step"], name="one_snapshot_per_save")]


class SnapshotHold(models.Model):
    """Somebody who still needs one kind of a snapshot: a branch that starts from it, a registration that copies it."""

    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="holds")
    kind = models.CharField(max_length=16)
    holder_kind = models.CharField(max_length=16)
    holder_id = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["snapshot", "kind", "holder_kind", "holder_id"],
                                               name="one_hold_per_holder")]


class Candidate(models.Model):
    """The registration of a snapshot's weights as a model; its ID is the model's, derived from the snapshot."""

    REGISTERING, REGISTERED, FAILED = "REGISTERING", "REGISTERED", "FAILED"

    id = models.CharField(max_length=64, primary_key=True)
    snapshot = models.OneToOneField(Snapshot, on_delete=models.PROTECT, related_name="candidate")
    phase = models.CharField(max_length=16, db_index=True)
    reason = models.TextField(blank=True)
    version = models.ForeignKey(Version, on_delete=models.PROTECT, null=True, related_name="+")
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
