"""A short campaign of random faults on a real box: nothing is lost. `python -m bench chaos` runs long ones."""

from collections import Counter
from itertools import islice

import pytest

from bench.chaos.campaign import Campaign
from bench.chaos.faults import FAULTS, OF_A_RUN
from bench.chaos.report import Played, read_tally
from bench.chaos.schedule import MOST_DEATHS, STEPS, WEIGHTS, rounds
from tests.e2e import running

SEED, FAULTS_INJECTED = 14163, 20
"""A seed whose first round holds enough faults of many kinds, and none for which the box must start anew."""
ROUNDS_TO_MEET_ALL = 16


def test_a_seed_says_what_happens_for_ever():
    first, again = (list(islice(rounds(1), 3)) for _ in range(2))
    assert first == again != list(islice(rounds(2), 3))
    assert [str(fault) for fault in first[0].faults][:2] == [
        "double the messages (run 1, update 0, 0.22 s later)", "kill valkey (run 2, update 0, 0.16 s later)"]


def test_a_long_campaign_meets_every_fault_and_no_run_dies_more_often_than_it_may():
    assert set(WEIGHTS) == set(FAULTS) > OF_A_RUN
    many = list(islice(rounds(1), 200))
    for first in range(len(many) - ROUNDS_TO_MEET_ALL):
        met = {fault.kind for each in many[first:first + ROUNDS_TO_MEET_ALL] for fault in each.faults}
        assert met == set(FAULTS), f"from round {first + 1} on"
    assert all(0 <= fault.step <= STEPS for each in many for fault in each.faults)
    deaths = [Counter(fault.life for fault in each.faults if fault.is_deadly) for each in many]
    assert max(max(count.values(), default=0) for count in deaths) == MOST_DEATHS


def test_a_campaign_goes_on_behind_the_rounds_of_its_report_and_takes_no_other_seed_s(tmp_path):
    path = tmp_path / "report.jsonl"
    first = read_tally(path, seed=4)
    first.add(Played(1, ("sft", "dpo"), 9, 3, (("kill web", "kill web (run 1)"),), ("it is gone",),
                     missed=("stop web",)))
    again = read_tally(path, seed=4)
    assert again.played == first.played
    assert (again.rounds, again.faults, again.lost) == (1, 1, ["round 1, it is gone"])
    assert (again.injected, again.missed) == ({"kill web": 1}, {"stop web": 1})
    with pytest.raises(ValueError, match="name another report"):
        read_tally(path, seed=5)


@pytest.mark.requirement("R016")
def test_nothing_is_lost_by_faults_at_random(trained_box):
    campaign = Campaign(running.http_of(trained_box, "chaos"), seed=SEED)
    campaign.prepare()
    tally = campaign.play(FAULTS_INJECTED)
    assert not tally.lost, tally.lost
    assert tally.faults >= FAULTS_INJECTED
