"""Addresses of the datasets pages."""

from django.urls import path

from datasets.views import changes, detail, lists

app_name = "datasets"
urlpatterns = [
    path("datasets", lists.dataset_list, name="list"),
    path("datasets/upload", lists.upload, name="upload"),
    path("datasets-version/<str:version_id>", lists.version_page, name="version"),
    path("datasets/<str:namespace>/<str:name>", detail.detail, name="detail"),
    path("datasets/<str:namespace>/<str:name>/alias", changes.set_alias, name="alias"),
    path("datasets/<str:namespace>/<str:name>/alias/remove", changes.remove_alias, name="alias-remove"),
    path("datasets/<str:namespace>/<str:name>/note", changes.annotate, name="note"),
]
