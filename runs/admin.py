"""Runs in the admin."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.text import Truncator

from optimize_site.kernel.admin import ReadOnlyAdmin, carry_out
from optimize_site.kernel.admin_documents import DocumentAdmin, NotedAdmin
from optimize_site.kernel.auth import Actor, actor_of
from optimize_site.kernel.errors import OperationError
from runs.grafana import shown_link
from runs.models import Candidate, Metric, MissedRow, Rollout, RolloutStep, Run, Snapshot, SnapshotHold
from runs.operations import (
    annotate_run,
    cancel_run,
    pause_run,
    pin_snapshot,
    prioritize_run,
    register_candidate,
    release_snapshot,
    resume_run,
    submit_run,
    unpin_snapshot,
    verify_run,
)
from runs.smoke import SHORT
from runs.snapshots import TRAINING_STATE, WEIGHTS
from runs.verify_text import disagreements, verdict


def _address(name: str, row: Run | Snapshot) -> str:
    return reverse(name, args=[row.pk])


def _links(*named: tuple[str, str]) -> str:
    """What has a form of its own on a page, a link each."""
    return format_html_join(" · ", '<a href="{1}">{0}</a>', named)


@admin.register(Run)
class RunAdmin(NotedAdmin, DocumentAdmin):
    """Training runs."""

    note_fields = ("description", "config_name")
    document_help = "JSON or YAML, as `runs start` takes it."
    list_display = ("shown_id", "config_name", "workload_name", "phase", "base_model", "method", "observed_step",
                    "total_steps", "smoke_verdict", "created_by", "created_at")
    list_filter = ("phase", "method", "base_model")
    search_fields = ("id", "config_name", "description", "config_hash", "workload__name")
    list_select_related = ("workload",)
    ordering = ("-created_at",)
    actions = ("cancel", "pause_saving", "pause_at_latest", "resume", "prioritize", "verify", "replay")

    def submit(self, document: Any, *, actor: Actor) -> Run:
        return submit_run(document, actor=actor).run

    def annotate(self, row: Run, notes: dict[str, str], *, actor: Actor) -> None:
        annotate_run(row, actor=actor, **notes)

    @admin.display(description="Smoke check")
    def smoke_verdict(self, row: Run) -> str | None:
        return None if row.smoke is None else SHORT.get(row.smoke.get("verdict") or "", "not judged yet")

    @admin.display(description="Workload")
    def workload_name(self, row: Run) -> str:
        return row.workload.name

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [*super().get_readonly_fields(request, obj), "on_its_pages", "on_grafana"]

    @admin.display(description="From here")
    def on_its_pages(self, row: Run) -> str:
        return _links(("The run's page", _address("runs:detail", row)), ("Branch", _address("runs:branch", row)),
                      ("Continue", _address("runs:continue", row)), ("Sweep", _address("runs:sweep", row)))

    @admin.display(description="Grafana")
    def on_grafana(self, row: Run) -> str:
        link = shown_link(row)
        return format_html('<a href="{}" rel="noreferrer">{}</a>', link, link) if link else "No dashboard is set."

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Run]) -> None:
        def operation(row: Run, actor: Actor) -> str:
            return f"The run {cancel_run(row, actor=actor).pk[:12]} is being cancelled."

        carry_out(request, rows, operation)

    @admin.action(description="Pause after a save", permissions=["operate"])
    def pause_saving(self, request: HttpRequest, rows: QuerySet[Run]) -> None:
        self._pause(request, rows, "save")

    @admin.action(description="Pause at once, keeping the latest save", permissions=["operate"])
    def pause_at_latest(self, request: HttpRequest, rows: QuerySet[Run]) -> None:
        self._pause(request, rows, "latest")

    def _pause(self, request: HttpRequest, rows: QuerySet[Run], checkpoint: str) -> None:
        def operation(row: Run, actor: Actor) -> str:
            return f"The run {pause_run(row, checkpoint=checkpoint, actor=actor).run.pk[:12]} is pausing."

        carry_out(request, rows, operation)

    @admin.action(description="Resume", permissions=["operate"])
    def resume(self, request: HttpRequest, rows: QuerySet[Run]) -> None:
        def operation(row: Run, actor: Actor) -> str:
            return f"The run {resume_run(row, actor=actor).pk[:12]} goes on."

        carry_out(request, rows, operation)

    @admin.action(description="Put in front of all that wait", permissions=["operate"])
    def prioritize(self, request: HttpRequest, rows: QuerySet[Run]) -> None:
        def operation(row: Run, actor: Actor) -> str:
            return f"The run {prioritize_run(row, actor=actor).pk[:12]} is the next of its devices."

        carry_out(request, rows, operation)

    @admin.action(description="Verify what it keeps", permissions=["view"])
    def verify(self, request: HttpRequest, rows: QuerySet[Run]) -> None:
        self._verify(request, rows, replayed=False)

    @admin.action(description="Verify, and train a stretch again", permissions=["operate"])
    def replay(self, request: HttpRequest, rows: QuerySet[Run]) -> None:
        self._verify(request, rows, replayed=True)

    def _verify(self, request: HttpRequest, rows: QuerySet[Run], *, replayed: bool) -> None:
        for row in rows:
            try:
                found = verify_run(row, replayed=replayed, actor=actor_of(request))
            except OperationError as refusal:
                messages.error(request, f"{refusal.detail} {refusal.hint}".strip())
                continue
            tell = messages.success if found["verified"] else messages.error
            tell(request, " ".join([f"The run {row.pk[:12]}: {verdict(found)}", *disagreements(found)]))


@admin.register(Metric)
class MetricAdmin(ReadOnlyAdmin):
    """What updates reported."""

    list_display = ("run_id_shown", "step", "attempt", "at")
    search_fields = ("run__id",)
    ordering = ("-id",)

    @admin.display(description="Run")
    def run_id_shown(self, row: Metric) -> str:
        return row.run_id[:12]


@admin.register(MissedRow)
class MissedRowAdmin(ReadOnlyAdmin):
    """Rows that smoke checks did not reproduce."""

    list_display = ("run_id_shown", "position", "expected_shown", "answer_shown", "finish", "attempt")
    list_filter = ("finish",)
    search_fields = ("run__id",)
    ordering = ("run_id", "position")

    @admin.display(description="Run")
    def run_id_shown(self, row: MissedRow) -> str:
        return row.run_id[:12]

    @admin.display(description="Expected")
    def expected_shown(self, row: MissedRow) -> str:
        return Truncator(row.expected).chars(80)

    @admin.display(description="Answer")
    def answer_shown(self, row: MissedRow) -> str:
        return Truncator(row.answer).chars(80)


@admin.register(Rollout)
class RolloutAdmin(ReadOnlyAdmin):
    """Completions that reinforcement runs sampled and scored."""

    list_display = ("run_id_shown", "step", "group", "index", "row", "score", "tokens", "finish", "asked_shown",
                    "completion_shown")
    list_filter = ("finish", "excluded")
    search_fields = ("run__id", "completion", "asked")
    ordering = ("-id",)

    @admin.display(description="Run")
    def run_id_shown(self, row: Rollout) -> str:
        return row.run_id[:12]

    @admin.display(description="Asked")
    def asked_shown(self, row: Rollout) -> str:
        return Truncator(row.asked).chars(80)

    @admin.display(description="Completion")
    def completion_shown(self, row: Rollout) -> str:
        return Truncator(row.completion).chars(80)


@admin.register(RolloutStep)
class RolloutStepAdmin(ReadOnlyAdmin):
    """Updates whose completions are kept."""

    list_display = ("run_id_shown", "step", "attempt", "count")
    search_fields = ("run__id",)
    ordering = ("-id",)

    @admin.display(description="Run")
    def run_id_shown(self, row: RolloutStep) -> str:
        return row.run_id[:12]


@admin.register(Snapshot)
class SnapshotAdmin(ReadOnlyAdmin):
    """Saves of runs."""

    list_display = ("shown_id", "run_id_shown", "step", "attempt", "has_weights", "has_training_state", "is_final",
                    "size_bytes", "pinned", "created_at", "removed_at")
    list_filter = ("is_final", "has_training_state")
    search_fields = ("id", "run__id")
    ordering = ("-created_at",)
    readonly_fields = ("on_its_pages",)
    actions = ("pin", "pin_weights", "pin_training_state", "unpin", "unpin_weights", "unpin_training_state", "register")

    @admin.display(description="From here")
    def on_its_pages(self, row: Snapshot) -> str:
        this = f"?snapshot={row.pk}"
        return _links(("The save's page", _address("runs:snapshot", row)),
                      ("Branch", _address("runs:branch", row.run) + this),
                      ("Sweep", _address("runs:sweep", row.run) + this),
                      ("Compare", f"{reverse('evaluations:comparison-new')}?source={row.pk}"))

    @admin.action(description="Pin", permissions=["operate"])
    def pin(self, request: HttpRequest, rows: QuerySet[Snapshot]) -> None:
        self._pin(request, rows)

    @admin.action(description="Pin the weights alone", permissions=["operate"])
    def pin_weights(self, request: HttpRequest, rows: QuerySet[Snapshot]) -> None:
        self._pin(request, rows, WEIGHTS)

    @admin.action(description="Pin the training state alone", permissions=["operate"])
    def pin_training_state(self, request: HttpRequest, rows: QuerySet[Snapshot]) -> None:
        self._pin(request, rows, TRAINING_STATE)

    def _pin(self, request: HttpRequest, rows: QuerySet[Snapshot], kind: str = "") -> None:
        def operation(row: Snapshot, actor: Actor) -> str:
            pinned = pin_snapshot(row, kind=kind, actor=actor)
            return f"The snapshot {pinned.pk[:12]} stays until it is unpinned: {', '.join(pinned.pinned)}."

        carry_out(request, rows, operation)

    @admin.action(description="Unpin", permissions=["operate"])
    def unpin(self, request: HttpRequest, rows: QuerySet[Snapshot]) -> None:
        self._unpin(request, rows)

    @admin.action(description="Unpin the weights alone", permissions=["operate"])
    def unpin_weights(self, request: HttpRequest, rows: QuerySet[Snapshot]) -> None:
        self._unpin(request, rows, WEIGHTS)

    @admin.action(description="Unpin the training state alone", permissions=["operate"])
    def unpin_training_state(self, request: HttpRequest, rows: QuerySet[Snapshot]) -> None:
        self._unpin(request, rows, TRAINING_STATE)

    def _unpin(self, request: HttpRequest, rows: QuerySet[Snapshot], kind: str = "") -> None:
        def operation(row: Snapshot, actor: Actor) -> str:
            left = unpin_snapshot(row, kind=kind, actor=actor).pk[:12]
            return f"The snapshot {left} is left to retention{f' for its {kind}' if kind else ''}."

        carry_out(request, rows, operation)

    @admin.action(description="Register a model of its weights", permissions=["operate"])
    def register(self, request: HttpRequest, rows: QuerySet[Snapshot]) -> None:
        def operation(row: Snapshot, actor: Actor) -> str:
            candidate = register_candidate(row, actor=actor)
            return f"The model {candidate.pk[:12]} is being made of the snapshot {row.pk[:12]}."

        carry_out(request, rows, operation)

    @admin.display(description="Run")
    def run_id_shown(self, row: Snapshot) -> str:
        return row.run_id[:12]


@admin.register(SnapshotHold)
class SnapshotHoldAdmin(ReadOnlyAdmin):
    """Who keeps which snapshot from being removed."""

    list_display = ("snapshot_id_shown", "kind", "holder_kind", "holder_id", "created_at")
    list_filter = ("kind", "holder_kind")
    search_fields = ("snapshot__id", "holder_id")
    ordering = ("-id",)
    list_select_related = ("snapshot",)
    actions = ("release",)

    @admin.action(description="Release: it was left behind", permissions=["operate"])
    def release(self, request: HttpRequest, rows: QuerySet[SnapshotHold]) -> None:
        def operation(row: SnapshotHold, actor: Actor) -> str:
            released = release_snapshot(row.snapshot, row.holder_id, kind=row.kind, actor=actor)
            return f"The snapshot {released.pk[:12]} is not held by {row.holder_id[:12]} any more."

        carry_out(request, rows, operation)

    @admin.display(description="Snapshot")
    def snapshot_id_shown(self, row: SnapshotHold) -> str:
        return row.snapshot_id[:12]


@admin.register(Candidate)
class CandidateAdmin(ReadOnlyAdmin):
    """Models made of snapshots on the way."""

    list_display = ("shown_id", "phase", "snapshot_id_shown", "reason", "created_by", "created_at")
    list_filter = ("phase",)
    search_fields = ("id", "snapshot__id")
    ordering = ("-created_at",)

    @admin.display(description="Snapshot")
    def snapshot_id_shown(self, row: Candidate) -> str:
        return row.snapshot_id[:12]
