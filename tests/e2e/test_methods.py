"""Every method and the smoke check on a real box, from rows to a model, a job killed on the way."""

import json
import os
import signal
import threading
from collections import Counter

import pytest

from evaluations.bundles.walls import find_walls
from tests.bundles import packed
from tests.e2e import running
from tests.e2e.conftest import wait_until
from tests.e2e.running import OVER, adapter_hash, attempt_of, finish, halted, losses, run_of
from tests.e2e.tiny_box import TINY, descriptor
from tests.grader_service import reply, serving

STEPS, REWARDED = 60, 60


@pytest.mark.requirement("R016", "R262", "R283")
def test_a_run_over_pairs_killed_and_rested_gives_the_bytes_of_one_that_was_left_alone(box, http):
    undisturbed = finish(http, start_over_pairs(http))
    run = killed_and_rested(box, http, start_over_pairs(http), save=10)
    assert adapter_hash(http, run) == adapter_hash(http, undisturbed)
    assert losses(http, run) == losses(http, undisturbed)
    assert (run["preference"]["step"], run["preference"]["accuracy"]) == (STEPS, 1.0)


@pytest.mark.requirement("R016", "R028", "R283")
@pytest.mark.parametrize("method", ["grpo", "gspo"])
def test_a_run_over_rewards_killed_and_rested_gives_the_bytes_of_one_that_was_left_alone(box, http, rewarded, method):
    undisturbed = rewarded if method == "grpo" else finish(http, start_over_rewards(http, method=method))
    run = killed_and_rested(box, http, start_over_rewards(http, method=method), save=4)
    assert adapter_hash(http, run) == adapter_hash(http, undisturbed)
    assert losses(http, run) == losses(http, undisturbed)
    assert rollouts(http, run) == rollouts(http, undisturbed)


def killed_and_rested(box, http, run_id, *, save):
    """The run once it is over, whose job was killed, and which was paused and resumed after that."""
    path = f"/v1/training/runs/{run_id}"
    with halted(box, run_id, save=save):
        kill_job(box, run_id)
    wait_until(lambda: len(run_of(http, run_id)["attempts"]) == 2, 60, "another attempt")
    http.post(f"{path}/pause", {"checkpoint": "save"})
    paused = http.follow(path, "phase", {"PAUSED", *OVER})
    assert paused["phase"] == "PAUSED", "it ended before the pause came"
    http.post(f"{path}/resume", {})
    run = finish(http, run_id)
    assert len(run["attempts"]) == 3
    assert run["attempts"][2]["resumedStep"] == paused["pause"]["savedStep"]
    return run


@pytest.mark.requirement("R030", "R236")
def test_a_run_over_rewards_starts_from_a_registered_adapter(http, rewarded, continued):
    model = http.get(f"/v1/registry/models/{rewarded['modelId']}")
    assert len(model["servingModel"]["targetModules"]) > 1, "the modules it covers, as the engine found them"
    assert continued["config"]["warmStartConfigHash"] == rewarded["configHash"]
    assert continued["config"]["rlHyperparams"]["lora"]["rank"] == 4
    assert metrics(http, continued)[0]["kl"] == 0, "the penalty is towards what it started from"


def test_a_run_over_rewards_is_trained_again_to_the_bytes_it_recorded(http, continued):
    checks = http.get(f"/v1/training/runs/{continued['runId']}/verify?replay=true")["checks"]
    assert [(check["count"], check["problems"]) for check in checks if check["name"] == "replay"] == [(2, [])], checks


@pytest.mark.requirement("R029")
def test_a_function_of_a_registered_bundle_scores_every_completion_of_a_run(http, continued):
    if not find_walls().is_sandbox:
        pytest.skip(f"this machine gives bundles no sandbox: {'; '.join(find_walls().missing.values())}")
    scored = http.get(f"/v1/training/runs/{continued['runId']}/rollouts?everyStep=true")["rollouts"]
    assert len(scored) == 16
    for row in scored:
        (said,) = [term for term in row["terms"] if term["explanation"].startswith("The row expects")]
        assert (said["score"], said["cause"]) == (float("e" in row["completion"]), ""), said
        assert said["share"] == 0.5 * said["score"] and "category" in said["explanation"], said


@pytest.mark.requirement("R046")
def test_a_smoke_check_reproduces_the_rows_it_memorised(box, http):
    smoke = {"sliceSize": 2, "maxSteps": 200, "threshold": 1}
    run = finish(http, running.start(http, steps=200, smoke=smoke))
    assert (run["smoke"]["verdict"], run["smoke"]["reproduced"]) == ("passed", 2)
    assert box.run("runs", "wait", run["runId"], "--exit-status").returncode == 0


def test_answers_are_scored_by_a_service_and_a_killed_job_asks_for_none_twice_that_was_kept(box, http):
    """Of 24 answers the first 16 are scored, in one batch, before the service falls silent and the job is killed."""
    is_open, kept = threading.Event(), 16

    def say(envelope, connection):
        if len(service.envelopes) > kept:
            is_open.wait(600)
        reply({"passed": len(envelope["output"]) % 2 == 0})(envelope, connection)

    with serving(say) as service:
        (box.home / "settings.toml").write_text(f'[trainer.graders]\nhttp-hosts = ["127.0.0.1:{service.port}"]\n')
        body = {"model": TINY, "workload": "triage", "grader": f"http:http://127.0.0.1:{service.port}/"}
        evaluation = http.post("/v1/training/evaluations", body)["evaluationId"]
        path = f"/v1/training/evaluations/{evaluation}"
        wait_until(lambda: http.get(path)["scored"] == kept and len(service.envelopes) > kept, 240, "a batch")
        kill_job(box, evaluation)
        is_open.set()
        found = http.follow(path, "phase", OVER)
    assert (found["phase"], found["scored"], found["unscored"]) == ("COMPLETED", 24, 0), found
    asked = Counter(envelope["input"][-1]["content"] for envelope in service.envelopes)
    assert len(asked) == 24 and sorted(asked.values())[:kept] == [1] * kept
    answers = http.get(f"{path}/predictions")["predictions"]
    assert [row["score"] for row in answers] == [float(len(row["answer"]) % 2 == 0) for row in answers]


@pytest.mark.requirement("R185")
def test_a_judge_that_is_killed_costs_its_run_no_score_and_is_given_back(box, http):
    """A model that knows nothing states no score, for which the run is not ended here; what counts is that it was asked
    for every completion."""
    (box.home / "settings.toml").write_text("[trainer.judges]\nmax-new-tokens = 8\n"
                                            "[trainer.rollouts]\nfailed-updates = 0\n")
    run_id = start_over_rewards(http, steps=30, terms=[{"kind": "model", "model": TINY, "instructions": "Judge."}])
    wait_until(lambda: run_of(http, run_id)["observedStep"] >= 1, 240, "a judged update")
    (judge,) = judges(http, run_id)
    assert judge["phase"] == "READY"
    kill_job(box, judge["judgeId"])
    run = finish(http, run_id)
    assert {"DEPLOYING_GRADER", "AWAITING_GRADER"} <= set(run["timing"]["phaseMillis"])
    assert [row["measured"]["failures.no_verdict"] for row in metrics(http, run)] == [8] * 30
    assert all(row["measured"]["judge_tokens"] > 0 for row in metrics(http, run))
    wait_until(lambda: judges(http, run_id)[0]["phase"] == "RELEASED", 60, "the judge's slot")
    assert judges(http, run_id)[0]["attempts"] == 2


def test_an_evaluations_judge_is_started_when_all_is_answered_and_given_back_when_all_is_scored(http):
    body = {"model": TINY, "workload": "triage", "grader": f"model:{TINY}", "graderInstructions": "Judge."}
    path = f"/v1/training/evaluations/{http.post('/v1/training/evaluations', body)['evaluationId']}"
    found = http.follow(path, "phase", OVER)
    assert (found["phase"], found["scored"] + found["unscored"]) == ("COMPLETED", 24), found
    assert set(found["unscoredCauses"]) <= {"no_verdict"}
    wait_until(lambda: judges(http, found["evaluationId"])[0]["phase"] == "RELEASED", 60, "the judge's slot")
    assert judges(http, found["evaluationId"])[0]["answered"] == 24


def judges(http, holder):
    """The judges that were held for a run or an evaluation."""
    found = http.get("/v1/training/judges?limit=100")["judges"]
    return [row for row in found if row["heldFor"]["workId"] == holder]


@pytest.fixture(scope="module")
def rewarded(http):
    """A run that learned from scored completions, and to which nothing happened."""
    return finish(http, start_over_rewards(http))


@pytest.fixture(scope="module")
def continued(http, rewarded):
    """A run from the adapter of another, which a bundle scores too where this machine gives bundles a sandbox."""
    http.call("POST", "/v1/registry/bundles/triage/scoring/versions", packed(reward=SCORES), "application/zip")
    by_bundle = [BY_BUNDLE] if find_walls().is_sandbox else []
    changes = {"method": "gspo", "terms": [*DIFFERING, *by_bundle], "warmStartModelId": rewarded["modelId"]}
    return finish(http, start_over_rewards(http, steps=2, **changes))


SCORES = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float("e" in solution_str), "reason": "The row expects " + ground_truth}
"""
BY_BUNDLE = {"kind": "rule", "bundle": "triage/scoring", "module": "reward", "weight": 0.5}

DIFFERING = [{"kind": "grader", "grader": 'regex:{"pattern":"[a-m]{2}"}'}, {"kind": "grader", "weight": 0.5}]
"""Terms that differ among completions of a model that knows nothing, so that something is learned."""


def start_over_rewards(http, *, steps=REWARDED, method="grpo", terms=DIFFERING, **changes):
    lora = {} if changes else {"lora": {"rank": 4}}
    rl = {"maxSteps": steps, "groupSize": 4, "promptsPerStep": 2, "maxCompletionLength": 12,
          "optimizer": {"learningRate": 0.01}} | lora
    config = {"dataset": "triage/train", "method": method, "maxSeqLength": 256, "rlHyperparams": rl,
              "reward": {"terms": terms}}
    body = descriptor(config=config, execution={"saveEvery": 4, "resumableSaveEvery": 1}, **changes)
    return http.post("/v1/training/runs", body)["runId"]


def metrics(http, run):
    return http.get(f"/v1/training/runs/{run['runId']}/metrics?limit=200")["metrics"]


def rollouts(http, run):
    """The completions of the newest update with what they scored."""
    found = http.get(f"/v1/training/runs/{run['runId']}/rollouts")["rollouts"]
    return [(row["completion"], row["score"]) for row in found]


def start_over_pairs(http):
    config = descriptor()["config"] | {"dataset": "triage/pairs", "method": "dpo"}
    config["hyperparams"]["training"] |= {"maxSteps": STEPS}
    run = http.post("/v1/training/runs", descriptor(config=config, execution={"saveEvery": 10}))
    return run["runId"]


def kill_job(box, run_id):
    """kill -9 of the training process of the run's newest attempt."""
    os.kill(json.loads((attempt_of(box, run_id) / "pid.json").read_text())["job"]["pid"], signal.SIGKILL)
