"""One box for all tests that take a training box through something, whichever folder they lie in."""

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def material(tmp_path_factory):
    """A folder with the tiny model, rows for it, and a run's descriptor."""
    from tests.e2e.tiny_box import make_material

    folder = tmp_path_factory.mktemp("material")
    make_material(folder)
    return folder


@pytest.fixture(scope="session")
def trained_box(material):
    """A box with the tiny model, up. Its folder's path is short: some of what lies in it are sockets."""
    from tests.e2e import running

    folder = Path(tempfile.mkdtemp(prefix="optimize-"))
    folder.chmod(0o755)
    it = running.ready_box(folder / "home", material)
    yield it
    it.down()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def http(trained_box):
    """That box, asked over HTTP."""
    from tests.e2e import running

    return running.http_of(trained_box, "tests")


@pytest.fixture(scope="session")
def undisturbed(http):
    """A run that nothing happened to."""
    from tests.e2e import running

    return running.finish(http, running.start(http))
