"""Addresses of sign-in, home, the box and the docs."""

from django.urls import URLPattern

app_name = "box"
urlpatterns: list[URLPattern] = []
