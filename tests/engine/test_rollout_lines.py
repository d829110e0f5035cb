"""The job's half of how rollouts are handed over: the line that both sides are tested against."""

import json
from pathlib import Path

from optimize_child.reinforcement.prompts import Prompt
from optimize_child.reinforcement.rewards import Reward, TermScore
from optimize_child.reinforcement.rollouts import Rollout, write_rollouts

LINE = Path(__file__).resolve().parents[1] / "rollout_line.json"


def test_an_updates_rollouts_are_written_as_the_box_reads_them(tmp_path):
    expected = json.loads(LINE.read_text())
    term = TermScore(**expected["terms"][0])
    prompt = Prompt(row=17, messages=expected["prompt"], tokens=[1, 2, 3], expected="It is 5.", columns={})
    rollout = Rollout(
        group=1,
        index=2,
        prompt=prompt,
        tokens=[5, 6, 7, 8],
        text="It is 5.",
        finish="stop",
        reward=Reward(0.5, [term]),
        advantage=0.25,
    )
    name = write_rollouts(tmp_path, 12, [rollout])
    assert name == "rollouts/00000012.jsonl"
    assert [json.loads(line) for line in (tmp_path / name).read_text().splitlines()] == [expected]
