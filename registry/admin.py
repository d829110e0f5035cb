"""The registry's rows in the admin."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from optimize_site.kernel.admin import ReadOnlyAdmin, carry_out
from optimize_site.kernel.auth import Actor
from registry.models import (
    Alias,
    AliasMove,
    Artifact,
    BaseModel,
    Namespace,
    Parent,
    Version,
    Workload,
    WorkloadReference,
)
from registry.operations.base_models import deselect_base_model, select_base_model
from registry.operations.namespaces import archive_namespace, unarchive_namespace
from registry.operations.workloads import archive_workload, unarchive_workload


@admin.register(Namespace)
class NamespaceAdmin(ReadOnlyAdmin):
    """Groups of artifacts."""

    list_display = ("name", "description", "archived_at", "created_by", "created_at")
    list_filter = (("archived_at", admin.EmptyFieldListFilter),)
    search_fields = ("name", "description")
    actions = ("archive", "unarchive")

    @admin.action(description="Archive", permissions=["operate"])
    def archive(self, request: HttpRequest, rows: QuerySet[Namespace]) -> None:
        carry_out(request, rows, lambda row, actor: f"{archive_namespace(row, actor=actor).name} is archived.")

    @admin.action(description="Unarchive", permissions=["operate"])
    def unarchive(self, request: HttpRequest, rows: QuerySet[Namespace]) -> None:
        carry_out(request, rows, lambda row, actor: f"{unarchive_namespace(row, actor=actor).name} is open.")


@admin.register(Artifact)
class ArtifactAdmin(ReadOnlyAdmin):
    """Named datasets, models and bundles."""

    list_display = ("reference", "kind", "created_at")
    list_filter = ("kind", "namespace")
    search_fields = ("name", "namespace__name")


@admin.register(Version)
class VersionAdmin(ReadOnlyAdmin):
    """Immutable versions."""

    list_display = ("shown_id", "reference", "kind", "format", "created_by", "created_at")
    list_filter = ("artifact__kind", "format", "artifact__namespace")
    search_fields = ("id", "content_hash", "digest", "artifact__name")
    list_select_related = ("artifact",)

    @admin.display(description="Kind")
    def kind(self, row: Version) -> str:
        return row.artifact.kind


@admin.register(Parent)
class ParentAdmin(ReadOnlyAdmin):
    """What versions came from."""

    list_display = ("child_reference", "kind", "reference")
    list_filter = ("kind",)
    search_fields = ("reference", "child__artifact__name", "child__id")
    list_select_related = ("child__artifact",)

    @admin.display(description="Version")
    def child_reference(self, row: Parent) -> str:
        return row.child.reference


@admin.register(Alias)
class AliasAdmin(ReadOnlyAdmin):
    """Movable names of versions."""

    list_display = ("name", "artifact_reference", "version_number", "epoch", "moved_at")
    search_fields = ("name", "artifact__name")
    list_select_related = ("artifact", "version")

    @admin.display(description="Artifact")
    def artifact_reference(self, row: Alias) -> str:
        return row.artifact.reference

    @admin.display(description="Version")
    def version_number(self, row: Alias) -> str:
        return f"v{row.version.number}"


@admin.register(AliasMove)
class AliasMoveAdmin(ReadOnlyAdmin):
    """Where aliases pointed."""

    list_display = ("at", "name", "artifact_reference", "version_number", "epoch", "actor")
    search_fields = ("name", "artifact__name")
    list_select_related = ("artifact", "version")
    ordering = ("-id",)

    @admin.display(description="Artifact")
    def artifact_reference(self, row: AliasMove) -> str:
        return row.artifact.reference

    @admin.display(description="Version")
    def version_number(self, row: AliasMove) -> str:
        return f"v{row.version.number}" if row.version else "removed"


@admin.register(BaseModel)
class BaseModelAdmin(ReadOnlyAdmin):
    """Base models that were selected."""

    list_display = ("repository", "phase", "revision", "selected_by", "selected_at", "failure_code")
    list_filter = ("phase",)
    search_fields = ("repository", "id")
    actions = ("select", "deselect")

    @admin.action(description="Select", permissions=["administer"])
    def select(self, request: HttpRequest, rows: QuerySet[BaseModel]) -> None:
        def operation(row: BaseModel, actor: Actor) -> str:
            return f"{select_base_model(row.repository, actor=actor).repository} is selected."

        carry_out(request, rows, operation)

    @admin.action(description="Deselect", permissions=["administer"])
    def deselect(self, request: HttpRequest, rows: QuerySet[BaseModel]) -> None:
        def operation(row: BaseModel, actor: Actor) -> str:
            return f"{deselect_base_model(row.repository, actor=actor).repository} is deselected."

        carry_out(request, rows, operation)


@admin.register(Workload)
class WorkloadAdmin(ReadOnlyAdmin):
    """Tasks."""

    list_display = ("name", "shown_id", "dataset", "grader", "archived_at", "created_by", "created_at")
    list_filter = (("archived_at", admin.EmptyFieldListFilter),)
    search_fields = ("name", "id", "description")
    list_select_related = ("evaluation_dataset__artifact",)
    actions = ("archive", "unarchive")

    @admin.action(description="Archive", permissions=["operate"])
    def archive(self, request: HttpRequest, rows: QuerySet[Workload]) -> None:
        carry_out(request, rows, lambda row, actor: f"{archive_workload(row, actor=actor).name} is archived.")

    @admin.action(description="Unarchive", permissions=["operate"])
    def unarchive(self, request: HttpRequest, rows: QuerySet[Workload]) -> None:
        carry_out(request, rows, lambda row, actor: f"{unarchive_workload(row, actor=actor).name} is open.")

    @admin.display(description="Evaluation data")
    def dataset(self, row: Workload) -> Any:
        return row.evaluation_dataset.reference if row.evaluation_dataset else None


@admin.register(WorkloadReference)
class WorkloadReferenceAdmin(ReadOnlyAdmin):
    """Where workloads point, with the evidence."""

    list_display = ("workload_name", "name", "model", "moved_by", "moved_at")
    list_filter = ("name",)
    search_fields = ("workload__name",)
    list_select_related = ("workload", "version__artifact")

    @admin.display(description="Workload")
    def workload_name(self, row: WorkloadReference) -> str:
        return row.workload.name

    @admin.display(description="Model")
    def model(self, row: WorkloadReference) -> str:
        return row.version.reference
