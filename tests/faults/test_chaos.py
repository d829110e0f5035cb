"""A short campaign of random faults on a real box: nothing is lost. `python -m bench chaos` runs long ones."""

from collections import Counter
from itertools import islice

import pytest

from bench.chaos.campaign import Campaign
from bench.chaos.faults import FAULTS
from bench.chaos.schedule import DEADLY, MOST_DEATHS, STEPS, WEIGHTS, rounds
from tests.e2e import running

SEED, FAULTS_INJECTED = 7, 10


def test_a_seed_says_what_happens_for_ever():
    first, again = (list(islice(rounds(1), 3)) for _ in range(2))
    assert first == again != list(islice(rounds(2), 3))
    assert [str(fault) for fault in first[0].faults][:2] == [
        "double the messages (run 2, update 10, 0.24 s later)", "cancel another run (run 1, update 34, 0.36 s later)"]


def test_a_long_campaign_meets_every_fault_and_no_run_dies_more_often_than_it_may():
    assert set(WEIGHTS) == set(FAULTS)
    many = list(islice(rounds(1), 200))
    assert {fault.kind for each in many for fault in each.faults} == set(FAULTS)
    assert all(0 <= fault.step <= STEPS for each in many for fault in each.faults)
    deaths = [Counter(fault.life for fault in each.faults if fault.kind.startswith(("kill", "cut", "flip"))
                      and any(word in fault.kind for word in DEADLY)) for each in many]
    assert max(max(count.values(), default=0) for count in deaths) == MOST_DEATHS


@pytest.mark.requirement("R016")
def test_nothing_is_lost_by_faults_at_random(trained_box):
    campaign = Campaign(running.http_of(trained_box, "chaos"), seed=SEED)
    campaign.prepare()
    tally = campaign.play(FAULTS_INJECTED)
    assert not tally.lost, tally.lost
    assert tally.faults >= FAULTS_INJECTED
