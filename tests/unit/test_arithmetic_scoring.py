"""The example of a bundle: its own tests pass, as its page says they are run."""

import subprocess
import sys

from optimize_site.kernel.scoring import PROJECT

EXAMPLE = PROJECT / "catalogs" / "examples" / "arithmetic-scoring"


def test_the_example_s_own_tests_pass_without_a_box():
    words = ["-B", "-m", "unittest", "discover", "-s", "tests", "-t", "."]
    done = subprocess.run([sys.executable, *words], cwd=EXAMPLE, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Ran 7 tests" in done.stderr, done.stderr


def test_its_page_names_every_file_that_it_holds():
    page = (EXAMPLE / "README.md").read_text()
    held = [path.name for path in EXAMPLE.rglob("*") if path.is_file() and path.suffix in {".json", ".py"}]
    assert [name for name in held if name not in page and name not in ("__init__.py", "test_reward.py")] == []
