"""The synchronous entry, which commands speak to in their own process."""

import os

import django
from django.apps import apps
from django.core.handlers.wsgi import WSGIHandler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "optimize_site.settings")
if not apps.ready:  # a command has set Django up, and chosen where its log goes; doing it again would undo that
    django.setup(set_prefix=False)
application = WSGIHandler()
