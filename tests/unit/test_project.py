"""The form of the project: where things lie, and what it is pinned to."""

import os
import re
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest

ARM = re.compile(r'Stepper\(\s*"([^"]+)"')
ROOT = Path(__file__).resolve().parents[2]
APPS = ["runs", "datasets", "registry", "evaluations", "endpoints", "gpu_worker"]
LEARNING = ["torch", "transformers", "trl", "peft", "verl", "ray", "vllm"]


@pytest.mark.requirement("R001")
def test_the_top_level_is_a_django_project_with_its_apps():
    for name in ["manage.py", "optimize_site", *APPS, "templates", "static", "catalogs", "tests", "docker"]:
        assert (ROOT / name).exists(), name
    for app in APPS:
        assert (ROOT / app / "apps.py").is_file(), app


@pytest.mark.requirement("R014")
def test_the_suite_runs_on_pytest_with_pytest_django():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert options["DJANGO_SETTINGS_MODULE"] == "optimize_site.settings"
    pinned = (ROOT / "requirements" / "test.txt").read_text()
    assert "pytest==" in pinned
    assert "pytest-django==" in pinned


def test_every_suite_gives_a_test_the_same_time():
    of_server = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    of_engine = ConfigParser(interpolation=None)
    of_engine.read(ROOT / "tests" / "engine" / "pytest.ini")
    for name in ("faulthandler_timeout", "faulthandler_exit_on_timeout"):
        assert of_engine["pytest"][name] == str(of_server[name]).lower()


def test_a_test_that_hangs_within_a_library_ends_its_suite_and_is_named(tmp_path):
    hanging = tmp_path / "test_hanging.py"
    hanging.write_text("import re\n\ndef test_forever():\n    re.match('(a|a)*$', 'a' * 60 + 'b')\n")
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "tests" / "engine" / "pytest.ini", hanging]
    done = subprocess.run([*command, "-o", "faulthandler_timeout=0.2"], capture_output=True, cwd=tmp_path, check=False,
                          env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert done.returncode and b"in test_forever" in done.stderr


@pytest.mark.parametrize("name", ["server", "jobs", "jobs-gpu", "test", "test-jobs-alone"])
def test_every_requirement_is_one_exact_version(name):
    lines = [line.split(";")[0].strip() for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()]
    loose = [line for line in lines if line and not line.startswith(("#", "-")) and "==" not in line]
    assert not loose


@pytest.mark.parametrize("name", ["server", "jobs", "jobs-gpu", "test", "test-jobs-alone"])
def test_no_requirement_names_a_registry_s_address(name):
    assert "://" not in (ROOT / "requirements" / f"{name}.txt").read_text()


def test_the_tests_compute_the_fused_loss_of_the_release_that_a_gpu_runs():
    gpu, alone = ((ROOT / "requirements" / f"{name}.txt").read_text() for name in ("jobs-gpu", "test-jobs-alone"))
    assert re.search(r"^liger-kernel==.*$", gpu, re.M)[0] == re.search(r"^liger-kernel==.*$", alone, re.M)[0]


@pytest.mark.requirement("R007")
def test_the_training_libraries_live_in_the_job_environment_alone():
    server = (ROOT / "requirements" / "server.txt").read_text().lower()
    jobs = (ROOT / "requirements" / "jobs.txt").read_text().lower()
    for library in ("torch", "transformers", "trl", "peft"):
        assert f"\n{library}==" not in f"\n{server}"
        assert f"\n{library}==" in f"\n{jobs}"


def test_the_web_and_the_workers_start_without_a_training_library():
    code = ("import sys, django; django.setup(); import optimize_site.urls, gpu_worker.drive, gpu_worker.control; "
            f"print([name for name in {LEARNING!r} if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True,
                          env={"DJANGO_SETTINGS_MODULE": "optimize_site.settings", "OPTIMIZE_HOME": "/nonexistent",
                               "OPTIMIZE_SECRET_KEY": "tests", "PATH": "/usr/bin:/bin"})
    assert done.stdout.strip() == "[]"


def test_no_code_of_ours_loads_a_pickle_that_a_user_could_supply():
    sources = [path for path in ROOT.rglob("*.py") if not any(
        part.startswith(".") or part in {"tests", "bench"} for part in path.relative_to(ROOT).parts)]
    for path in sources:
        text = path.read_text()
        assert "pickle.load" not in text, path
        assert "trust_remote_code=True" not in text, path
        assert "weights_only=False" not in text, path


WALL_CLOCK = re.compile(r"timezone\.now\b|\btime\.time\(|datetime\.(now|today|utcnow)\(|\bNow\(\)")
OTHERS_CLOCKS = ("kernel/clock.py", "optimize_site/appliance/", "/child/", "/migrations/")
"""The seam; the supervisor, which stamps what it shows and decides nothing by it; the jobs, which have no Django."""


@pytest.mark.requirement("R016")
def test_the_server_reads_the_wall_clock_in_one_place():
    sources = [path for app in ("optimize_site", *APPS) for path in (ROOT / app).rglob("*.py")
               if not any(part in path.as_posix() for part in OTHERS_CLOCKS)]
    assert len(sources) > 200
    found = [f"{path.relative_to(ROOT)}:{number}" for path in sources
             for number, line in enumerate(path.read_text().splitlines(), 1) if WALL_CLOCK.search(line)]
    assert not found, "use optimize_site.kernel.clock"


def test_every_arm_that_a_bar_starts_is_there():
    started = {name for file in (ROOT / "bench").glob("*.py") for name in ARM.findall(file.read_text())}
    assert started and not [name for name in started if not (ROOT / "bench" / "arms" / name).is_file()]
