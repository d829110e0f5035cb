"""The table of a run's phases in the reference: every phase that a run can be in has its line."""

from pathlib import Path

import pytest

from evaluations.rules import KnownRules
from optimize_site.kernel.graders import MalformedGrader
from runs.phases import PHASES


def test_each_phase_of_a_run_is_explained():
    table = Path("docs/reference/runs.md").read_text().partition("## Phases")[2].partition("\n## ")[0]
    assert [phase for phase in PHASES.next if f"`{phase}`" not in table] == []


@pytest.mark.parametrize("grader", ["model:a/b:v1", "http:https://scores.example/a", "bundle:b#m",
                                    'weighted:{\\"terms\\":[{\\"grader\\":\\"exact\\"}]}'])
def test_weighted_takes_rules_only_as_its_docs_say(grader):
    words = " ".join(Path("docs/graders.md").read_text().partition("## weighted")[2].partition("\n## ")[0].split())
    assert "A term is a rule: `model:`, `http:` and `bundle:` graders are refused here" in words
    with pytest.raises(MalformedGrader):
        KnownRules().canonical(f'weighted:{{"terms":[{{"grader":"{grader}"}}]}}')
