"""Intervals against values known from elsewhere."""

import math

import pytest

from evaluations.statistics import bootstrap, mean, mean_interval, normal, paired_difference, wilson


def test_wilson_matches_the_published_values():
    # 9 of 10, and 81 of 263: the standard textbook examples.
    assert wilson(0.9, 10) == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert wilson(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)


def test_normal_interval_is_mean_plus_or_minus_196_standard_errors():
    values = [0.0, 1.0] * 50
    reach = 1.959963984540054 * math.sqrt(0.25 * 100 / 99 / 100)
    assert normal(values) == pytest.approx((0.5 - reach, 0.5 + reach), rel=1e-12)


def test_bootstrap_agrees_with_the_binomial_it_resamples():
    # Means of resamples of 100 fair coins are binomial(100, 0.5)/100: its central 95 % is 0.40..0.60.
    assert bootstrap([0.0, 1.0] * 50) == pytest.approx((0.40, 0.60), abs=0.011)


def test_bootstrap_is_the_same_every_time():
    values = [0.1 * (row % 7) for row in range(40)]
    assert bootstrap(values) == bootstrap(values)


def test_scores_that_are_all_one_still_leave_doubt():
    low, high = mean_interval([1.0] * 30)
    assert low == pytest.approx(0.8865, abs=1e-4) and high == 1.0
    assert mean_interval([0.0] * 30) == (0.0, pytest.approx(1 - 0.8865, abs=1e-4))


def test_an_interval_stays_within_zero_and_one():
    low, high = mean_interval([1.0] * 20 + [0.0])
    assert 0.0 <= low < 20 / 21 < high <= 1.0


def test_many_rows_take_the_normal_interval():
    scores = [float(row % 2) for row in range(5000)]
    assert mean_interval(scores) == normal(scores)


def test_no_scores_have_no_interval():
    assert mean_interval([]) is None
    assert paired_difference([], []) is None
    with pytest.raises(ValueError):
        mean([])


def test_paired_rows_decide_what_two_intervals_could_not():
    a = [0.0] * 60 + [1.0] * 40
    b = [1.0] * 12 + [0.0] * 48 + [1.0] * 40
    found = paired_difference(a, b)
    assert (found.num_rows, found.num_better, found.num_worse) == (100, 12, 0)
    assert found.difference == pytest.approx(0.12)
    assert found.is_decided and found.interval[0] == pytest.approx(0.06, abs=0.021)
    assert mean_interval(a)[1] > mean_interval(b)[0]


def test_pairs_that_go_both_ways_alike_decide_nothing():
    found = paired_difference([0.0, 1.0] * 20, [1.0, 0.0] * 20)
    assert found.difference == 0.0 and not found.is_decided


def test_pairs_must_be_of_the_same_rows():
    with pytest.raises(ValueError):
        paired_difference([1.0], [1.0, 0.0])
