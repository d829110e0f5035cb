"""The launcher, in a checkout of its own with a stand-in for Python."""

import os
import shutil
import subprocess

import pytest

from optimize_site.appliance.places import CHECKOUT

PYTHON = """#!/bin/sh
[ "$1" = -c ] && echo 3.11 || env
"""


@pytest.fixture
def launcher(tmp_path):
    """Its path, beside an environment that is as it should be."""
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python").write_text(PYTHON)
    (binaries / "python").chmod(0o755)
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "server.txt").write_text("django==0\n")
    sums = subprocess.run(["cksum"], input=b"3.11\ndjango==0\n", capture_output=True, check=True).stdout
    (tmp_path / ".venv" / ".installed-server").write_bytes(sums.replace(b" ", b"-"))
    return shutil.copy(CHECKOUT / "optimize", tmp_path)


def test_what_was_compiled_is_kept_whatever_the_surroundings_say(launcher, tmp_path):
    env = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "OPTIMIZE_HOME": str(tmp_path / "home")}
    done = subprocess.run([launcher, "runs", "list"], env=env, capture_output=True, text=True, check=True)
    assert "PWD=" in done.stdout
    assert "PYTHONDONTWRITEBYTECODE" not in done.stdout
