"""How long a guesser waits."""

from optimize_site.kernel.sign_in import LONGEST_WAIT, decide_wait


def test_a_few_failures_cost_nothing():
    assert decide_wait(4, 5, 0) == 0


def test_the_wait_doubles_and_has_an_end():
    waits = [decide_wait(failures, 5, 0) for failures in range(5, 30)]
    assert waits[:4] == [15, 30, 60, 120]
    assert max(waits) == LONGEST_WAIT


def test_time_that_has_passed_counts():
    assert decide_wait(5, 5, 14.2) == 1
    assert decide_wait(5, 5, 15) == 0
