"""With `-q` a verb that makes something prints its ID alone: `RUN=$(./optimize runs start -f run.yaml -q)`."""

import shlex

import pytest
from django.core.management import get_commands, load_command_class

from optimize_site.kernel import commands

FILE = "catalogs/examples/sums/run.json"
POINTS = [{"childRunId": "aa11"}, {"childRunId": "bb22"}]
MADE = {
    f"runs start -f {FILE} --force": ({"runId": "aa11"}, "aa11"),
    "runs branch RUN --snapshot SNAPSHOT --steps 3": ({"runId": "aa11"}, "aa11"),
    f"runs sweep RUN --snapshot SNAPSHOT --steps 3 -g {FILE}": ({"points": POINTS}, "aa11\nbb22"),
    "evaluations start --model MODEL": ({"evaluationId": "aa11"}, "aa11"),
    f"pipelines start -f {FILE} --force": ({"pipelineId": "aa11"}, "aa11"),
    "comparisons create --source SNAPSHOT": ({"comparisonId": "aa11"}, "aa11"),
    "snapshots register SNAPSHOT": ({"modelId": "aa11"}, "aa11"),
    "workloads create NAME": ({"workloadId": "NAME"}, "NAME"),
    "tokens create NAME": ({"token": "opt_1"}, "opt_1"),
}


class Box:
    """Answers every request with one document."""

    def __init__(self, document):
        self.document = document

    def post(self, *request):
        return self.document


@pytest.mark.parametrize("line", MADE)
def test_what_was_made_is_all_that_a_quiet_verb_prints(line, monkeypatch, capsys):
    document, printed = MADE[line]
    monkeypatch.setattr(commands, "client_for", lambda context: Box(document))
    noun, *words = shlex.split(line)
    command = load_command_class(get_commands()[noun], noun)
    assert command.run([*words, "-q"]) == 0
    assert capsys.readouterr() == (f"{printed}\n", "")
