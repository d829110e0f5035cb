"""The example sets, images and analyses in the admin."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from datasets.analyses.operations import cancel_analysis
from datasets.models import Analysis, ExampleSet, Image, OwnFiles, Shard, Upload
from datasets.operations import abandon_upload
from optimize_site.kernel.admin import ReadOnlyAdmin, carry_out
from optimize_site.kernel.auth import Actor


@admin.register(ExampleSet)
class ExampleSetAdmin(ReadOnlyAdmin):
    """Examples behind dataset versions."""

    list_display = ("shown_id", "format", "num_examples", "num_tool_rows", "size_bytes", "created_by", "created_at")
    list_filter = ("format",)
    search_fields = ("content_hash",)
    ordering = ("-created_at",)


@admin.register(OwnFiles)
class OwnFilesAdmin(ReadOnlyAdmin):
    """Files of versions that share their examples with a version in other files."""

    list_display = ("version", "size_bytes", "num_blank_lines")
    ordering = ("-version__created_at",)


@admin.register(Upload)
class UploadAdmin(ReadOnlyAdmin):
    """Datasets on their way in, shard by shard."""

    list_display = ("shown_id", "reference", "phase", "num_shards", "created_by", "created_at", "expires_at")
    list_filter = ("phase",)
    search_fields = ("id", "reference")
    ordering = ("-created_at",)
    actions = ("abandon",)

    @admin.display(description="Shards")
    def num_shards(self, row: Upload) -> int:
        return len(row.planned)

    @admin.action(description="Give up", permissions=["operate"])
    def abandon(self, request: HttpRequest, rows: QuerySet[Upload]) -> None:
        def operation(row: Upload, actor: Actor) -> str:
            abandon_upload(row, actor=actor)
            return f"The upload of {row.reference} is given up."

        carry_out(request, rows, operation)


@admin.register(Shard)
class ShardAdmin(ReadOnlyAdmin):
    """Files of rows that were examined."""

    list_display = ("shown_id", "num_examples", "size_bytes", "created_at")
    search_fields = ("sha256",)
    ordering = ("-created_at",)


@admin.register(Image)
class ImageAdmin(ReadOnlyAdmin):
    """Images that rows show."""

    list_display = ("shown_id", "media_type", "width", "height", "size_bytes", "created_by", "created_at")
    list_filter = ("media_type",)
    search_fields = ("sha256",)
    ordering = ("-created_at",)


@admin.register(Analysis)
class AnalysisAdmin(ReadOnlyAdmin):
    """What example sets look like under base models."""

    list_display = ("shown_id", "repository", "revision", "phase", "examples_shown", "product_version", "num_attempts",
                    "created_by", "created_at")
    list_filter = ("phase", "repository", "product_version")
    search_fields = ("id", "repository", "examples__content_hash")
    ordering = ("-created_at",)
    actions = ("cancel",)

    @admin.display(description="Examples")
    def examples_shown(self, row: Analysis) -> str:
        return row.examples_id[:12]

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Analysis]) -> None:
        def operation(row: Analysis, actor: Actor) -> str:
            return f"The analysis {cancel_analysis(row, actor=actor).pk[:12]} is being stopped."

        carry_out(request, rows, operation)
