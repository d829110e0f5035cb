"""Trials and judges in the admin."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from endpoints.models import Judge, Trial
from endpoints.operations.trials import cancel_trial
from endpoints.queries import list_judges
from endpoints.render import fault_of, state_of
from optimize_site.kernel.admin import ReadOnlyAdmin, carry_out
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.words import state_word
from runs.text import spell_bytes


@admin.register(Trial)
class TrialAdmin(ReadOnlyAdmin):
    """One-input trials."""

    list_display = ("shown_id", "model_reference", "phase", "created_by", "created_at", "ended_at")
    list_filter = ("phase",)
    search_fields = ("id", "model__id")
    list_select_related = ("model__artifact",)
    ordering = ("-created_at",)
    actions = ("cancel",)

    @admin.display(description="Model")
    def model_reference(self, row: Trial) -> str:
        return row.model.reference

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Trial]) -> None:
        def operation(row: Trial, actor: Actor) -> str:
            return f"The trial {cancel_trial(row, actor=actor).pk[:12]} is being cancelled."

        carry_out(request, rows, operation)


@admin.register(Judge)
class JudgeAdmin(ReadOnlyAdmin):
    """Models held to grade answers. They go by themselves when the work that needs them is over."""

    list_display = ("shown_id", "model_reference", "state", "holder", "profile", "peak_memory", "last_fault",
                    "created_by", "created_at", "ended_at")
    list_filter = ("phase", "profile", "holder_kind")
    search_fields = ("id", "model__id", "holder_id")
    list_select_related = ("model__artifact",)
    ordering = ("-created_at",)

    @admin.display(description="Model")
    def model_reference(self, row: Judge) -> str:
        return row.model.reference

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return list_judges()

    @admin.display(description="State", ordering="phase")
    def state(self, row: Any) -> str:
        return state_word(state_of(row)).text

    @admin.display(description="Memory", empty_value="—")
    def peak_memory(self, row: Judge) -> str | None:
        held = row.stage.get("peakMemoryBytes")
        return None if held is None else spell_bytes(held)

    @admin.display(description="Last fault", empty_value="—")
    def last_fault(self, row: Any) -> str | None:
        return fault_of(row) or None

    @admin.display(description="Held for")
    def holder(self, row: Judge) -> str:
        return f"{row.holder_kind} {row.holder_id[:12]}"
