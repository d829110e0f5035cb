"""The run's phases: what the table says of itself."""

import pytest

from runs.phases import BEFORE_A_JOB, PHASES, title

SEEDS = ["RESOLVING_DATASET", "AWAITING_BASE_MODEL", "DEPLOYING_GRADER", "AWAITING_GRADER", "AWAITING_CAPACITY",
         "STARTING_JOB", "QUEUED", "PREPARING", "TRAINING", "PAUSING", "PAUSED", "RECORDING", "CLEANING_UP",
         "COMPLETED", "FAILED", "CANCELLED"]


def reachable(start):
    found, edge = {start}, [start]
    while edge:
        edge = [after for phase in edge for after in PHASES.next[phase] if after not in found]
        found |= set(edge)
    return found


@pytest.mark.requirement("R178")
def test_the_phases_are_the_sixteen_in_their_order():
    assert list(PHASES.next) == SEEDS


def test_three_phases_are_final():
    assert PHASES.terminal == {"COMPLETED", "FAILED", "CANCELLED"}
    assert not any(PHASES.next[phase] for phase in PHASES.terminal)


def test_every_phase_is_reached_and_every_phase_leads_to_an_end():
    assert reachable("RESOLVING_DATASET") == set(SEEDS)
    assert all(reachable(phase) & PHASES.terminal for phase in SEEDS)


@pytest.mark.requirement("R187")
def test_an_end_is_reached_through_cleaning_up_only():
    assert {phase for phase, after in PHASES.next.items() if after & PHASES.terminal} == {"CLEANING_UP"}


def test_a_run_can_be_cancelled_from_every_open_phase():
    assert all("CLEANING_UP" in PHASES.next[phase] for phase in PHASES.open - {"CLEANING_UP", "DEPLOYING_GRADER"})
    assert "CLEANING_UP" in PHASES.next["DEPLOYING_GRADER"]


@pytest.mark.requirement("R016")
def test_a_run_whose_job_is_lost_waits_for_a_device_again():
    assert all("AWAITING_CAPACITY" in PHASES.next[phase] for phase in PHASES.active)


def test_a_stopped_job_goes_through_pausing():
    assert "PAUSING" in PHASES.next["TRAINING"]
    assert "AWAITING_CAPACITY" in PHASES.next["PAUSING"]


def test_a_device_is_held_exactly_between_the_start_and_the_end_of_a_job():
    assert PHASES.active == {"STARTING_JOB", "QUEUED", "PREPARING", "TRAINING", "PAUSING"}
    assert not BEFORE_A_JOB & PHASES.active
    assert PHASES.open == BEFORE_A_JOB | PHASES.active | {"RECORDING", "CLEANING_UP"}


def test_people_read_phases_in_sentence_case():
    assert title("AWAITING_BASE_MODEL") == "Awaiting base model"
