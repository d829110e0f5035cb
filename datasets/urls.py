"""Addresses of the datasets pages."""

from django.urls import path

from datasets import views

app_name = "datasets"
urlpatterns = [
    path("datasets", views.dataset_list, name="list"),
    path("datasets/upload", views.upload, name="upload"),
    path("datasets-version/<str:version_id>", views.version_page, name="version"),
    path("datasets/<str:namespace>/<str:name>", views.detail, name="detail"),
    path("datasets/<str:namespace>/<str:name>/alias", views.set_alias, name="alias"),
]
