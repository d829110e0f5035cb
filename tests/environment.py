"""A pytest plugin, loaded before Django's settings: a scratch state folder, and no doorbells."""

import atexit
import gc
import os
import shutil
import tempfile

import pytest

os.environ["OPTIMIZE_HOME"] = tempfile.mkdtemp(prefix="optimize-test-")
atexit.register(shutil.rmtree, os.environ["OPTIMIZE_HOME"], ignore_errors=True)
os.environ["OPTIMIZE_RING_DOORBELLS"] = "0"
os.environ["OPTIMIZE_STATIC_STORAGE"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
os.environ.setdefault("OPTIMIZE_SECRET_KEY", "a key for tests only")


def pytest_collection_finish():
    """What is loaded by now stays loaded: the collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def quick_passwords():
    """Hash passwords quickly; how slowly is Django's business."""
    from django.test import override_settings

    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@pytest.fixture
def own_state(tmp_path, monkeypatch):
    """A state folder of the test's own, and no other box that commands would speak to."""
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    for name in ("OPTIMIZE_CONTEXT", "AKKA_CONTEXT", "OPTIMIZE_ACCESS_TOKEN", "AKKA_ACCESS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
