"""Addresses of the base model pages."""

from django.urls import path

from registry import views

app_name = "registry"
urlpatterns = [
    path("box/base-models", views.base_models, name="base-models"),
    path("box/base-models/<str:name>", views.base_model, name="base-model"),
    path("box/base-models/<str:name>/select", views.select, name="select"),
    path("box/base-models/<str:name>/deselect", views.deselect, name="deselect"),
]
