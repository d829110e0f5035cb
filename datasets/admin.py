"""The example sets and images in the admin."""

from django.contrib import admin

from datasets.models import ExampleSet, Image
from optimize_site.kernel.admin import ReadOnlyAdmin


@admin.register(ExampleSet)
class ExampleSetAdmin(ReadOnlyAdmin):
    """Examples behind dataset versions."""

    list_display = ("shown_id", "format", "num_examples", "num_tool_rows", "size_bytes", "created_by", "created_at")
    list_filter = ("format",)
    search_fields = ("content_hash",)
    ordering = ("-created_at",)


@admin.register(Image)
class ImageAdmin(ReadOnlyAdmin):
    """Images that rows show."""

    list_display = ("shown_id", "media_type", "width", "height", "size_bytes", "created_by", "created_at")
    list_filter = ("media_type",)
    search_fields = ("sha256",)
    ordering = ("-created_at",)
