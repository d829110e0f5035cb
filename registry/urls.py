"""Addresses of the registry's pages: base models, namespaces, bundles, garbage."""

from django.urls import path

from registry.views import base_models, bundles, garbage, namespaces

app_name = "registry"
urlpatterns = [
    path("box/base-models", base_models.base_models, name="base-models"),
    path("box/base-models/<str:name>", base_models.base_model, name="base-model"),
    path("box/base-models/<str:name>/select", base_models.select, name="select"),
    path("box/base-models/<str:name>/deselect", base_models.deselect, name="deselect"),
    path("box/garbage", garbage.garbage, name="garbage"),
    path("box/garbage/collect", garbage.collect, name="collect"),
    path("namespaces", namespaces.namespace_list, name="namespaces"),
    path("namespaces/<str:name>", namespaces.namespace, name="namespace"),
    path("namespaces/<str:name>/archive", namespaces.archive, name="archive"),
    path("namespaces/<str:name>/unarchive", namespaces.unarchive, name="unarchive"),
    path("namespaces/<str:name>/annotate", namespaces.annotate, name="annotate"),
    path("bundles", bundles.bundle_list, name="bundles"),
    path("bundles/upload", bundles.upload, name="bundle-upload"),
    path("bundles/<str:namespace>/<str:name>", bundles.bundle, name="bundle"),
    path("bundles/<str:namespace>/<str:name>/alias", bundles.set_alias, name="bundle-alias"),
    path("bundles/<str:namespace>/<str:name>/alias/remove", bundles.remove_alias, name="bundle-alias-remove"),
    path("bundles/<str:namespace>/<str:name>/note", bundles.annotate, name="bundle-note"),
]
