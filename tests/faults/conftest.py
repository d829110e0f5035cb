"""One box for the tests that do things to a training box."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.e2e import running


@pytest.fixture(scope="session")
def trained_box(tmp_path_factory):
    """A box with the tiny model, up. Its folder's path is short: some of what lies in it are sockets."""
    folder = Path(tempfile.mkdtemp(prefix="optimize-"))
    folder.chmod(0o755)
    it = running.ready_box(folder / "home", tmp_path_factory.mktemp("material"))
    yield it
    it.down()
    shutil.rmtree(folder, ignore_errors=True)
