"""Runs in the admin."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from optimize_site.kernel.admin import ReadOnlyAdmin, carry_out
from optimize_site.kernel.auth import Actor
from runs.models import Metric, Run, Snapshot
from runs.operations import cancel_run


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    """Training runs."""

    list_display = ("shown_id", "config_name", "workload_name", "phase", "base_model", "method", "observed_step",
                    "total_steps", "created_by", "created_at")
    list_filter = ("phase", "method", "base_model")
    search_fields = ("id", "config_name", "description", "config_hash", "workload__name")
    list_select_related = ("workload",)
    ordering = ("-created_at",)
    actions = ("cancel",)

    @admin.display(description="Workload")
    def workload_name(self, row: Run) -> str:
        return row.workload.name

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Run]) -> None:
        def operation(row: Run, actor: Actor) -> str:
            return f"The run {cancel_run(row, actor=actor).pk[:12]} is being cancelled."

        carry_out(request, rows, operation)


@admin.register(Metric)
class MetricAdmin(ReadOnlyAdmin):
    """What updates reported."""

    list_display = ("run_id_shown", "step", "attempt", "at")
    search_fields = ("run__id",)
    ordering = ("-id",)

    @admin.display(description="Run")
    def run_id_shown(self, row: Metric) -> str:
        return row.run_id[:12]


@admin.register(Snapshot)
class SnapshotAdmin(ReadOnlyAdmin):
    """Saves of runs."""

    list_display = ("shown_id", "run_id_shown", "step", "attempt", "has_weights", "has_training_state", "is_final",
                    "size_bytes", "created_at", "removed_at")
    list_filter = ("is_final", "has_training_state")
    search_fields = ("id", "run__id")
    ordering = ("-created_at",)

    @admin.display(description="Run")
    def run_id_shown(self, row: Snapshot) -> str:
        return row.run_id[:12]
