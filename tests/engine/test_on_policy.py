"""What is learned from is what the policy says: every update samples by the weights that it then moves, and rollouts,
evaluations and judges answer a prompt alike."""

import jobs
import pytest
import tiny
import torch
from optimize_child.reinforcement.trainer import PolicyTrainer
from test_judge import plan_of
from test_rl import RL, rollouts, train, warm_start_from  # noqa: F401 - a fixture

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.requirement("R225")
@pytest.mark.parametrize("strict", [False, True], ids=["shared", "padded"])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_every_update_learns_from_completions_of_the_weights_that_it_moves(
    train, monkeypatch, strict, temperature  # noqa: F811
):
    apart = []

    def compare(trainer, rolled, found):
        apart.append(float((torch.tensor(rolled.logps) - torch.cat(found)).abs().max()))

    monkeypatch.setattr(PolicyTrainer, "_check_sampled", compare)
    train(strict=strict, **{f"{RL}.maxSteps": 3, f"{RL}.temperature": temperature,
                            f"{RL}.optimizer.learningRate": 0.1, f"{RL}.klBeta": 1.0})  # fmt: skip
    assert len(apart) == 3
    assert max(apart) < 1e-4, "the weights before an update give its completions other probabilities"


@pytest.mark.requirement("R223", "R237")
def test_greedily_rollouts_an_evaluation_and_a_judge_say_the_same(train, tmp_path, base_model, write_rows):  # noqa: F811
    """Over a base model with an adapter, each through its whole entry, whoever samples the rollouts."""
    rows = tiny.ticket_rows(3)
    source = train(rows, **{f"{RL}.maxSteps": 1})
    adapter = str(source / tiny.events_of(source, "finished")[0]["adapter"])
    evaluated = jobs.run(tmp_path / "evaluated", tiny.evaluation_plan(
        base_model, [write_rows(rows, "asked.jsonl")], systems=[{"name": "candidate", "adapter": adapter}]))
    asked = [{"messages": row["messages"][:-1]} for row in rows]
    judged = jobs.run(tmp_path / "judged", plan_of(base_model, adapter=adapter, asked=asked, max_new_tokens=12))
    said = {event["position"]: event["answer"] for event in tiny.events_of(evaluated, "answer")}
    assert len(set(said.values())) > 1
    assert said == {answer["index"]: answer["answer"]
                    for answer in tiny.events_of(judged, "finished")[0]["report"]["answers"]}  # fmt: skip
    for strict in (False, True):
        rolled = train(rows, warm_start=warm_start_from(source), strict=strict, **{
            f"{RL}.maxSteps": 1, f"{RL}.temperature": 0, f"{RL}.groupSize": 2, f"{RL}.promptsPerStep": 3,
        })  # fmt: skip
        assert said == {line["row"]: line["completion"] for line in rollouts(rolled, 1)}
