"""Addresses of the runs pages."""

from django.urls import path

from runs import views

app_name = "runs"
urlpatterns = [
    path("runs", views.listing.run_list, name="list"),
    path("runs/new", views.new.new, name="new"),
    path("runs/new/check", views.new.check, name="check"),
    path("runs/new/fields", views.new.fields, name="fields"),
    path("runs/new/preview", views.preview.of_form, name="preview"),
    path("runs/compare", views.compare.page, name="compare"),
    path("runs/compare/series", views.compare.series, name="compare-series"),
    path("runs/<str:run_id>", views.detail.detail, name="detail"),
    path("runs/<str:run_id>/preview", views.preview.of_run, name="preview-run"),
    path("runs/<str:run_id>/verify", views.verify.page_part, name="verify"),
    path("runs/<str:run_id>/series", views.curves.series, name="series"),
    path("runs/<str:run_id>/metrics.csv", views.curves.metrics_csv, name="metrics-csv"),
    path("runs/<str:run_id>/tensorboard", views.curves.tensorboard, name="tensorboard"),
    path("runs/<str:run_id>/rollouts", views.rollouts.page, name="rollouts"),
    path("runs/<str:run_id>/rollouts/rows/<int:row>", views.rollouts.of_row, name="rollouts-of-row"),
    path("runs/<str:run_id>/cancel", views.detail.cancel, name="cancel"),
    path("runs/<str:run_id>/pause", views.lifecycle.pause, name="pause"),
    path("runs/<str:run_id>/resume", views.lifecycle.resume, name="resume"),
    path("runs/<str:run_id>/prioritize", views.lifecycle.prioritize, name="prioritize"),
    path("runs/<str:run_id>/annotate", views.lifecycle.annotate, name="annotate"),
    path("runs/<str:run_id>/branch", views.branching.branch, name="branch"),
    path("runs/<str:run_id>/branch/check", views.branching.check_branch, name="branch-check"),
    path("runs/<str:run_id>/continue", views.continuing.go_on, name="continue"),
    path("runs/<str:run_id>/continue/check", views.continuing.check, name="continue-check"),
    path("runs/<str:run_id>/sweep", views.branching.sweep, name="sweep"),
    path("runs/<str:run_id>/sweep/check", views.branching.check_sweep, name="sweep-check"),
    path("snapshots/<str:snapshot_id>", views.snapshots.detail, name="snapshot"),
    path("snapshots/<str:snapshot_id>/pin", views.snapshots.pin, name="pin"),
    path("snapshots/<str:snapshot_id>/unpin", views.snapshots.unpin, name="unpin"),
    path("snapshots/<str:snapshot_id>/release", views.snapshots.release, name="release"),
    path("snapshots/<str:snapshot_id>/register", views.snapshots.register, name="register"),
]
