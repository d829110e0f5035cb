"""A pytest plugin, loaded before Django's settings: a scratch state folder, and no doorbells."""

import atexit
import os
import shutil
import tempfile

os.environ["OPTIMIZE_HOME"] = tempfile.mkdtemp(prefix="optimize-test-")
atexit.register(shutil.rmtree, os.environ["OPTIMIZE_HOME"], ignore_errors=True)
os.environ["OPTIMIZE_RING_DOORBELLS"] = "0"
os.environ["OPTIMIZE_STATIC_STORAGE"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
os.environ.setdefault("OPTIMIZE_SECRET_KEY", "a key for tests only")
