"""A state folder of each test's own, and a box that can train."""

import pytest

from tests.factories import make_base_model, make_dataset, make_device, make_workload


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def ready(db):
    make_device()
    make_workload()
    make_dataset()
    make_base_model()
