"""Evaluations in the admin."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from evaluations.models import Evaluation, Prediction
from evaluations.operations.evaluations import cancel_evaluation, retry_evaluation
from optimize_site.kernel.admin import ReadOnlyAdmin, carry_out
from optimize_site.kernel.auth import Actor


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    """Models scored over datasets."""

    list_display = ("shown_id", "model_reference", "workload_name", "phase", "mean_score", "num_answered", "num_rows",
                    "num_unscored", "created_by", "created_at")
    list_filter = ("phase", "grader", "workload")
    search_fields = ("id", "model__id", "model__artifact__name", "workload__name")
    list_select_related = ("model__artifact", "workload")
    ordering = ("-created_at",)
    actions = ("cancel", "retry")

    @admin.display(description="Model")
    def model_reference(self, row: Evaluation) -> str:
        return row.model_name

    @admin.display(description="Workload")
    def workload_name(self, row: Evaluation) -> str:
        return row.workload.name

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Evaluation]) -> None:
        def operation(row: Evaluation, actor: Actor) -> str:
            return f"The evaluation {cancel_evaluation(row, actor=actor).pk[:12]} is being cancelled."

        carry_out(request, rows, operation)

    @admin.action(description="Answer what is missing", permissions=["operate"])
    def retry(self, request: HttpRequest, rows: QuerySet[Evaluation]) -> None:
        def operation(row: Evaluation, actor: Actor) -> str:
            return f"The evaluation {retry_evaluation(row, actor=actor).pk[:12]} is taken up again."

        carry_out(request, rows, operation)


@admin.register(Prediction)
class PredictionAdmin(ReadOnlyAdmin):
    """Answers with their verdicts."""

    list_display = ("evaluation_id_shown", "position", "score", "is_exact", "unscored_cause", "at")
    list_filter = ("is_exact", "unscored_cause")
    search_fields = ("evaluation__id",)
    ordering = ("-id",)

    @admin.display(description="Evaluation")
    def evaluation_id_shown(self, row: Prediction) -> str:
        return row.evaluation_id[:12]
