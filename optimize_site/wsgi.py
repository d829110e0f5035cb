"""The synchronous entry, which commands speak to in their own process."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "optimize_site.settings")
application = get_wsgi_application()
