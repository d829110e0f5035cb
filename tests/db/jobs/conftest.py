"""A run that waits for its device, on a box with one."""

import pytest

from runs.operations import advance_run
from tests.factories import make_device, make_run
from tests.playing import reread


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def device(db):
    return make_device()


@pytest.fixture
def run(device):
    made = make_run()
    advance_run(made.pk)
    return reread(made)
