"""Evaluations in the admin."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from evaluations.models import Comparison, Evaluation, Mark, Pipeline, Prediction, Stage, Target
from evaluations.operations.evaluations import cancel_evaluation, retry_evaluation
from evaluations.operations.pipelines import annotate_pipeline, cancel_pipeline, resume_pipeline, start_pipeline
from optimize_site.kernel.admin import ReadOnlyAdmin, carry_out
from optimize_site.kernel.admin_documents import DocumentAdmin, NotedAdmin
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


@admin.register(Mark)
class MarkAdmin(ReadOnlyAdmin):
    """What people say of answers."""

    list_display = ("evaluation_id_shown", "position", "score", "by", "at")
    list_filter = ("by",)
    search_fields = ("prediction__evaluation__id", "by")
    list_select_related = ("prediction",)
    ordering = ("-at",)

    @admin.display(description="Evaluation")
    def evaluation_id_shown(self, row: Mark) -> str:
        return row.prediction.evaluation_id[:12]


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


@admin.register(Pipeline)
class PipelineAdmin(NotedAdmin, DocumentAdmin):
    """Train and evaluate stages in order."""

    document_help = "JSON or YAML, as `pipelines start` takes it."
    list_display = ("shown_id", "workload_name", "phase", "failure_reason", "created_by", "created_at")
    list_filter = ("phase", "workload")
    search_fields = ("id", "workload__name", "description")
    list_select_related = ("workload",)
    ordering = ("-created_at",)
    actions = ("cancel", "resume")

    def submit(self, document: Any, *, actor: Actor) -> Pipeline:
        return start_pipeline(document, actor=actor).pipeline

    def annotate(self, row: Pipeline, notes: dict[str, str], *, actor: Actor) -> None:
        annotate_pipeline(row, description=notes.get("description"), actor=actor)

    @admin.display(description="Workload")
    def workload_name(self, row: Pipeline) -> str:
        return row.workload.name

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Pipeline]) -> None:
        def operation(row: Pipeline, actor: Actor) -> str:
            return f"The pipeline {cancel_pipeline(row, actor=actor).pk[:12]} is being cancelled."

        carry_out(request, rows, operation)

    @admin.action(description="Take up again", permissions=["operate"])
    def resume(self, request: HttpRequest, rows: QuerySet[Pipeline]) -> None:
        def operation(row: Pipeline, actor: Actor) -> str:
            return f"The pipeline {resume_pipeline(row, actor=actor).pk[:12]} goes on."

        carry_out(request, rows, operation)


@admin.register(Stage)
class StageAdmin(ReadOnlyAdmin):
    """The stages of pipelines."""

    list_display = ("pipeline_id_shown", "position", "name", "type", "state", "mean_score", "reason")
    list_filter = ("type", "state")
    search_fields = ("pipeline__id", "name", "run__id", "evaluation__id")
    ordering = ("-pipeline__created_at", "position")

    @admin.display(description="Pipeline")
    def pipeline_id_shown(self, row: Stage) -> str:
        return row.pipeline_id[:12]


@admin.register(Comparison)
class ComparisonAdmin(ReadOnlyAdmin):
    """Snapshots compared with their branches."""

    list_display = ("shown_id", "workload_name", "phase", "grader", "created_by", "created_at")
    list_filter = ("phase", "workload")
    search_fields = ("id", "workload__name", "source__id")
    list_select_related = ("workload",)
    ordering = ("-created_at",)

    @admin.display(description="Workload")
    def workload_name(self, row: Comparison) -> str:
        return row.workload.name


@admin.register(Target)
class TargetAdmin(ReadOnlyAdmin):
    """The models of comparisons."""

    list_display = ("comparison_id_shown", "position", "kind", "state", "mean_score", "reason")
    list_filter = ("kind", "state")
    search_fields = ("comparison__id", "run__id")
    ordering = ("-comparison__created_at", "position")

    @admin.display(description="Comparison")
    def comparison_id_shown(self, row: Target) -> str:
        return row.comparison_id[:12]
