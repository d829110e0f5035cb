"""Addresses of the evaluations pages."""

from django.urls import URLPattern

app_name = "evaluations"
urlpatterns: list[URLPattern] = []
