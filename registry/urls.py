"""Addresses of the registry pages."""

from django.urls import URLPattern

app_name = "registry"
urlpatterns: list[URLPattern] = []
