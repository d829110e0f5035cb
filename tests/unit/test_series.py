"""Curves lose points, never peaks."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.series import curve, downsample


def noisy(count):
    return [(step, math.sin(step / 40)) for step in range(count)]


def test_a_short_curve_is_left_alone():
    points = noisy(2000)
    assert downsample(points) == points


def test_a_long_curve_has_at_most_the_limit_and_keeps_its_ends():
    points = noisy(100_000)
    shown = downsample(points)
    assert len(shown) <= 2000
    assert (shown[0], shown[-1]) == (points[0], points[-1])


def test_a_single_spike_among_many_points_is_kept():
    points = noisy(50_000)
    points[31_337] = (31_337, 99.0)
    points[31_400] = (31_400, -99.0)
    shown = downsample(points)
    assert (31_337, 99.0) in shown
    assert (31_400, -99.0) in shown


def test_a_gap_stays_a_gap():
    points = noisy(50_000)
    points[20_000] = (20_000, None)
    assert (20_000, None) in downsample(points)


def test_a_curve_skips_rows_without_the_figure_and_breaks_at_what_is_not_finite():
    rows = [{"step": 1, "values": {"loss": 2.0}}, {"step": 2, "values": {"eval": 1}},
            {"step": 3, "values": {"loss": math.nan}}]
    assert curve(rows, "loss") == {"steps": [1, 3], "values": [2.0, None]}


def test_a_limit_too_small_for_a_curve_is_an_error():
    with pytest.raises(ValueError, match="at least 4"):
        downsample(noisy(10), 3)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400), st.integers(4, 60))
def test_whatever_the_curve_its_extremes_ends_and_order_are_kept(values, limit):
    points = list(enumerate(values))
    shown = downsample(points, limit)
    assert len(shown) <= max(limit, 4)
    assert shown == sorted(shown)
    assert max(value for _, value in shown) == max(values)
    assert min(value for _, value in shown) == min(values)
