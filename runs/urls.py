"""Addresses of the runs pages."""

from django.urls import path

from runs import views

app_name = "runs"
urlpatterns = [
    path("runs", views.run_list, name="list"),
    path("runs/new", views.new, name="new"),
    path("runs/new/check", views.check, name="check"),
    path("runs/<str:run_id>", views.detail, name="detail"),
    path("runs/<str:run_id>/series", views.series, name="series"),
    path("runs/<str:run_id>/metrics.csv", views.metrics_csv, name="metrics-csv"),
    path("runs/<str:run_id>/cancel", views.cancel, name="cancel"),
]
