"""Addresses of the datasets pages."""

from django.urls import path

from datasets.views import analyses, changes, detail, lists

app_name = "datasets"
urlpatterns = [
    path("datasets", lists.dataset_list, name="list"),
    path("datasets/upload", lists.upload, name="upload"),
    path("datasets-upload/<str:upload_id>/abandon", changes.abandon_upload, name="upload-abandon"),
    path("datasets-version/<str:version_id>", lists.version_page, name="version"),
    path("datasets-analysis/<str:analysis_id>", analyses.analysis_page, name="analysis"),
    path("datasets-analysis/<str:analysis_id>/cancel", analyses.cancel, name="analysis-cancel"),
    path("datasets-analysis/<str:analysis_id>/again", analyses.again, name="analysis-again"),
    path("datasets/<str:namespace>/<str:name>", detail.detail, name="detail"),
    path("datasets/<str:namespace>/<str:name>/analyze", analyses.analyze, name="analyze"),
    path("datasets/<str:namespace>/<str:name>/alias", changes.set_alias, name="alias"),
    path("datasets/<str:namespace>/<str:name>/alias/remove", changes.remove_alias, name="alias-remove"),
    path("datasets/<str:namespace>/<str:name>/note", changes.annotate, name="note"),
]
