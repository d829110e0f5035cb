"""The box that the tests of faults share with the end-to-end tests."""

import pytest


@pytest.fixture(scope="module")
def box(trained_box):
    return trained_box
