"""Addresses of the pages on which a model is asked one thing."""

from django.urls import path

from endpoints import views

app_name = "endpoints"
urlpatterns = [
    path("models/<str:model_id>/try", views.try_it, name="try"),
    path("trials/<str:trial_id>", views.trial, name="trial"),
]
