"""Addresses of the runs pages."""

from django.urls import path

from runs import views

app_name = "runs"
urlpatterns = [
    path("runs", views.listing.run_list, name="list"),
    path("runs/new", views.new.new, name="new"),
    path("runs/new/check", views.new.check, name="check"),
    path("runs/new/preview", views.preview.of_form, name="preview"),
    path("runs/<str:run_id>", views.detail.detail, name="detail"),
    path("runs/<str:run_id>/preview", views.preview.of_run, name="preview-run"),
    path("runs/<str:run_id>/series", views.curves.series, name="series"),
    path("runs/<str:run_id>/metrics.csv", views.curves.metrics_csv, name="metrics-csv"),
    path("runs/<str:run_id>/cancel", views.detail.cancel, name="cancel"),
]
