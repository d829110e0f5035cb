"""Bundles as graders: the version that scores is written into the grader, and what cannot score is refused at once."""

import io
import json

import pytest
from django.test import Client

from evaluations import bundle_graders
from evaluations.bundles.walls import Walls, find_walls
from evaluations.errors import BundleNotUsable
from evaluations.management.commands.graders import Command
from evaluations.models import Evaluation
from evaluations.scorers import _numbered_lines, columns_of
from optimize_site.kernel.archives import pack_folder
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.conf import home
from optimize_site.kernel.graders import MalformedGrader, available_grader
from optimize_site.kernel.management.commands.info import Command as Info
from optimize_site.kernel.scoring import PROJECT
from registry.errors import UnknownVersion
from registry.operations.artifacts import set_alias
from registry.operations.bundles import push_bundle, register_bundle
from tests.bundles import packed
from tests.factories import make_base_model, make_dataset, make_device, make_workload

pytestmark = pytest.mark.django_db
EXAMPLE = PROJECT / "catalogs" / "examples" / "arithmetic-scoring"
SCORES = "def compute_score(solution_str, ground_truth):\n    return float(solution_str == ground_truth)\n" \
         "def half(solution_str):\n    return {'score': 0.5, 'short': True, 'reason': 'so so'}\n"


def register(reference, text=SCORES, **modules):
    return register_bundle(reference, [packed(reward=text, **modules)], actor=LOCAL).version


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def test_a_grader_names_the_version_it_means_and_never_another(client):
    register("gsm8k/scoring")
    first = available_grader("bundle:gsm8k/scoring#reward:compute_score")
    assert first == "bundle:gsm8k/scoring:v1#reward"
    newer = register("gsm8k/scoring", SCORES + "# newer\n")
    set_alias(newer.artifact, "champion", newer.artifact.versions.get(number=1), actor=LOCAL)
    assert available_grader(" bundle:gsm8k/scoring#reward:half ") == "bundle:gsm8k/scoring:v2#reward:half"
    assert available_grader("bundle:gsm8k/scoring:champion#reward") == available_grader(first) == first
    assert available_grader(f"bundle:{newer.content_hash[:12]}#reward") == "bundle:gsm8k/scoring:v2#reward"
    assert available_grader("bundle:scoring#reward", namespace="gsm8k") == "bundle:gsm8k/scoring:v2#reward"


def test_a_workload_keeps_the_version_that_was_current_when_it_was_named(client):
    register("triage/scoring")
    workload = make_workload("triage", grader="bundle:scoring#reward")
    register("triage/scoring", SCORES + "# newer\n")
    assert workload.grader == "bundle:triage/scoring:v1#reward"


@pytest.mark.parametrize(("text", "error", "said"), [
    ("bundle:gsm8k/none#reward", UnknownVersion, "no bundle"),
    ("bundle:gsm8k/scoring#../reward", MalformedGrader, "no name of a module"),
    ("bundle:gsm8k/scoring#reward:a b", MalformedGrader, "no name of a module"),
    ("bundle:gsm8k/scoring#judge", BundleNotUsable, "has no module judge"),
    ("bundle:gsm8k/scoring#reward:judge", BundleNotUsable, "has no function judge"),
    ("bundle:gsm8k/scoring#broken", BundleNotUsable, "ModuleNotFoundError"),
])
def test_what_cannot_score_is_refused_before_anything_is_spent(text, error, said):
    register("gsm8k/scoring", broken="import nothing_of_the_kind\n")
    with pytest.raises(error) as refused:
        available_grader(text)
    assert said in refused.value.detail and refused.value.hint


def test_without_a_sandbox_a_bundle_is_refused_and_info_says_so(client, monkeypatch):
    register("gsm8k/scoring")
    walls = Walls(["namespaces"], {"landlock": "not there", "seccomp": "not there"})
    monkeypatch.setattr(bundle_graders, "find_walls", lambda: walls)
    monkeypatch.setattr("evaluations.bundles.scorer.find_walls", lambda: walls)
    with pytest.raises(BundleNotUsable) as refused:
        available_grader("bundle:gsm8k/scoring#reward")
    assert refused.value.code == "no_sandbox" and "allow-unsandboxed" in refused.value.hint
    assert client.get("/v1/training/info").json()["bundles"] == {
        "isSandbox": False, "walls": ["namespaces"], "unsandboxedAllowed": False,
        "missing": {"landlock": "not there", "seccomp": "not there"}}
    monkeypatch.setenv("OPTIMIZE_TRAINER_BUNDLES_ALLOW_UNSANDBOXED", "true")
    assert client.get("/v1/training/info").json()["bundles"]["unsandboxedAllowed"] is True


def test_info_says_which_walls_hold(capsys, monkeypatch):
    walls = Walls(["landlock", "seccomp"], {"namespaces": "forbidden"})
    monkeypatch.setattr(bundle_graders, "find_walls", lambda: walls)
    assert Info().run([]) == 0
    assert "scored in a sandbox of landlock, seccomp (no namespaces: forbidden)" in capsys.readouterr().out


def test_a_bundle_is_checked_and_tried_by_command(tmp_path, capsys):
    register("gsm8k/scoring")
    assert Command().run(["validate", "bundle:gsm8k/scoring#reward:half", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == {
        "bundle": "gsm8k/scoring:v1", "hash": register("gsm8k/scoring").content_hash, "module": "reward",
        "function": "half", "takes": ["solution_str"], "manyAtOnce": False, "async": False,
        "sandbox": list(find_walls().held)}
    assert Command().run(["run", "bundle:gsm8k/scoring#reward:half", "--answer", "x", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["grader"], found["meanScore"]) == ("bundle:gsm8k/scoring:v1#reward:half", 0.5)
    assert found["verdicts"][0]["fields"] == {"short": True} and found["verdicts"][0]["explanation"] == "so so"


def example():
    sink = io.BytesIO()
    pack_folder(EXAMPLE / "scoring", sink)
    return sink.getvalue()


def test_the_example_scores_as_its_page_says(client):
    push_bundle("gsm8k-scoring", [example()], actor=LOCAL)
    rows = [{"answer": said, "expected": "9 + 9 = 18\n#### 18"} for said in ("#### 18", "#### $18.0", "#### 9", "18")]
    sent = json.dumps({"grader": "bundle:gsm8k-scoring#reward", "rows": rows})
    found = client.post("/v1/training/graders/run", sent, content_type="application/json").json()
    assert [verdict["score"] for verdict in found["verdicts"]] == [1.0, 1.0, 0.1, 0.0]
    assert found["verdicts"][2]["explanation"] == "It says 9, not 18."
    assert found["verdicts"][2]["fields"] == {"form": True, "right": False}


def test_a_function_is_told_of_a_row_s_other_columns():
    """An evaluation's answers are sent to it with what else their rows hold, by the rows' positions."""
    register("gsm8k/scoring")
    rows = [{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "level": number}
            for number in range(4)]
    dataset = make_dataset("gsm8k/eval", "\n\n".join(map(json.dumps, rows)).encode())
    row = Evaluation(dataset=dataset, grader="bundle:gsm8k/scoring:v1#reward")
    assert [columns_of(line) for _, line in _numbered_lines(row)] == [{"level": number} for number in range(4)]
    assert not list(_numbered_lines(Evaluation(dataset=dataset, grader="exact")))


@pytest.mark.requirement("R235")
def test_the_descriptor_of_gsm8k_works_as_printed(client):
    """A hundred updates of groups of eight, scored by a function of a bundle that was pushed under a bare name."""
    make_device("gpu", kind="cuda", profile="h200")
    make_base_model("Qwen/Qwen3-0.6B")
    make_workload("gsm8k")
    make_dataset("default/gsm8k-train", 40)
    bundle = push_bundle("gsm8k-scoring", [example()], actor=LOCAL).version
    sent = client.post("/v1/training/runs/dry-run", (EXAMPLE / "run.json").read_text(),
                       content_type="application/json")
    found = sent.json()
    assert found["valid"], found["problems"]
    config = found["resolved"]["config"]
    assert config["reward"] == {"onFailure": "zero", "terms": [
        {"kind": "rule", "weight": 1, "bundle": bundle.content_hash, "module": "reward", "function": "compute_score"}]}
    stated = json.loads((EXAMPLE / "run.json").read_text())["config"]
    rl = config["rlHyperparams"]
    assert {name: rl[name] for name in ("maxSteps", "groupSize", "klBeta", "temperature", "maxCompletionLength")} == {
        name: stated["rlHyperparams"][name]
        for name in ("maxSteps", "groupSize", "klBeta", "temperature", "maxCompletionLength")}
    assert (rl["lora"]["rank"], rl["optimizer"]["learningRate"], config["maxSeqLength"]) == (32, 1e-5, 1536)


def test_nothing_is_left_in_the_state_folder():
    register("gsm8k/scoring")
    available_grader("bundle:gsm8k/scoring#reward")
    assert not list((home() / "scratch").glob("bundle-*"))
