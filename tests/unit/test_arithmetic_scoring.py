"""The example of a bundle: its own tests pass, as its page says they are run."""

import json
import subprocess
import sys

from optimize_site.kernel.scoring import PROJECT
from runs.descriptor import parse_descriptor

EXAMPLE = PROJECT / "catalogs" / "examples" / "arithmetic-scoring"


def test_the_example_s_own_tests_pass_without_a_box():
    words = ["-B", "-m", "unittest", "discover", "-s", "tests", "-t", "."]
    done = subprocess.run([sys.executable, *words], cwd=EXAMPLE, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Ran 7 tests" in done.stderr, done.stderr


def test_its_page_names_every_file_that_it_holds():
    page = (EXAMPLE / "README.md").read_text()
    held = [path.name for path in EXAMPLE.rglob("*") if path.is_file() and path.suffix in {".json", ".py"}]
    assert [name for name in held if name not in page and name not in ("__init__.py", "test_reward.py")] == []


def test_the_run_that_its_page_starts_needs_no_data_that_does_not_ship():
    """Every answer of the sums has the form that the bundle scores, and the run rewards by both of its functions."""
    run = json.loads((EXAMPLE / "sums.json").read_text())
    assert parse_descriptor(run).problems == ()
    assert [term.get("function", "compute_score") for term in run["config"]["reward"]["terms"]] == [
        "compute_score", "follows_form"]
    rows = (EXAMPLE.parent / "sums" / "train.jsonl").read_text().splitlines()
    answers = {json.loads(row)["messages"][-1]["content"] for row in rows}
    asked = ("import json, sys; from scoring import reward; "
             "print(all(reward.compute_score(text, text)['score'] == reward.follows_form(text) == 1 "
             "for text in json.load(sys.stdin)))")
    done = subprocess.run([sys.executable, "-B", "-c", asked], cwd=EXAMPLE, input=json.dumps(sorted(answers)),
                          capture_output=True, text=True, check=False)
    assert (run["config"]["dataset"], done.stdout) == ("sums/train", "True\n"), done.stderr
