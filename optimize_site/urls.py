"""The box's addresses: the API, the admin, health, and each app's pages."""

from django.contrib import admin
from django.urls import include, path

from optimize_site.api import api
from optimize_site.kernel import health

urlpatterns = [
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", health.metrics),
    path("v1/", api.urls),
    path("admin/", admin.site.urls),
    path("", include("optimize_site.kernel.urls")),
    path("", include("registry.urls")),
    path("", include("datasets.urls")),
    path("", include("runs.urls")),
    path("", include("evaluations.urls")),
    path("", include("endpoints.urls")),
]
