"""Addresses of sign-in, home, the box and the docs."""

from django.urls import path

from optimize_site.kernel import views

app_name = "box"
urlpatterns = [
    path("", views.home, name="home"),
    path("login", views.sign_in_page, name="sign-in"),
    path("sign-out", views.sign_out, name="sign-out"),
    path("search", views.search, name="search"),
    path("box", views.box_page, name="box"),
    path("box/logs/<str:name>", views.log_page, name="log"),
    path("docs/", views.docs_page, name="docs"),
    path("docs/images/<str:name>", views.docs_image, name="docs-image"),
    path("docs/<path:name>", views.docs_page, name="docs-page"),
    path("favicon.ico", views.favicon, name="favicon"),
    path("changes", views.changes, name="changes"),
    path("changes/<slug:kind>/<str:subject>", views.changes, name="changes-of"),
]
