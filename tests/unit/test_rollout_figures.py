"""How an update's completions are spread, how alike they are, and when a rising reward is suspicious."""

import inspect
import json
import math
import random
import re
from pathlib import Path

import msgspec
import pytest

from runs.rollouts import signs
from runs.rollouts.distributions import BINS, counted, distribution, edges_of, laid_over, percentile, two_groups
from runs.rollouts.lines import asked_of, read_rollouts
from runs.rollouts.signs import HeldOut, signs_of, trend_of
from runs.rollouts.variety import most_repeated, variety_of


@pytest.mark.requirement("R273")
def test_every_value_is_counted_once_whatever_its_sign_and_size():
    dice = random.Random(5)
    for scale in (1e-3, 1.0, 300.0):
        values = sorted(dice.uniform(-scale, scale) for _ in range(200))
        found = distribution(values)
        assert sum(found["counts"]) == 200
        assert found["edges"][0] <= values[0] <= values[-1] <= found["edges"][-1]
        for low, high, count in zip(found["edges"], found["edges"][1:], found["counts"], strict=False):
            assert abs(count - sum(low <= value < high for value in values)) <= (high == found["edges"][-1])
    assert distribution([]) is None
    assert distribution([0.0, 0.0])["edges"][-1] == 1.0


def test_bins_of_different_updates_lie_over_each_other():
    small, large = edges_of(0, 0.4), edges_of(0, 1.7)
    assert (small[-1], large[-1], len(small)) == (0.5, 2.0, BINS + 1)
    assert set(large) >= {edge for edge in small if math.isclose(edge * 16 % 1, 0)}
    assert laid_over(distribution([0.1, 0.1, 0.3]), large) == counted([0.1, 0.1, 0.3], large)
    assert laid_over(distribution([0.0, 0.5, 1.0]), large) == counted([0.0, 0.5, 1.0], large)


def test_percentiles_lie_between_values_in_proportion():
    assert [percentile([1.0, 2.0, 3.0, 5.0], share) for share in (0, 25, 50, 100)] == [1.0, 1.75, 2.5, 5.0]


@pytest.mark.parametrize(("values", "fall_in_two"), [
    ([0.0] * 10 + [1.0] * 6, True), ([0.1, 0.12, 0.15, 0.11, 0.9, 0.88, 0.95, 0.91, 0.92], True),
    ([index / 40 for index in range(40)], False), ([0.0] * 30 + [1.0] * 2, False), ([0.5] * 20, False),
    ([0.0, 1.0], False), ([0.0] * 5 + [0.5] * 5 + [1.0] * 5, False)])
def test_values_fall_in_two_only_where_both_parts_are_large_and_the_middle_is_empty(values, fall_in_two):
    assert (two_groups(sorted(values)) is not None) == fall_in_two


def test_a_normal_spread_does_not_fall_in_two():
    dice = random.Random(3)
    assert not any(two_groups(sorted(dice.gauss(0, 1) for _ in range(64))) for _ in range(50))


def test_completions_are_alike_by_their_words():
    found = variety_of([(0, "It is 4."), (0, "It  is\n4."), (1, "It is 4."), (1, "It is 5.")])
    assert (found.repeated, found.shared) == (0.5, 0.75)
    assert found.distinct_pairs == pytest.approx(3 / 8)
    assert variety_of([(0, "a"), (1, "b")]) == (variety_of([(0, "x"), (3, "y")]))
    assert most_repeated([(0, "a b"), (0, "a  b"), (1, "a b"), (1, "c")], 5) == [("a b", 3, 2)]
    with pytest.raises(ValueError):
        variety_of([])


def line(first, last, noise=0.02, points=40, seed=1):
    dice = random.Random(seed)
    return [(step, first + (last - first) * step / points + dice.gauss(0, noise * max(abs(first), abs(last))))
            for step in range(1, points + 1)]


RISING = line(0.2, 0.9)


@pytest.mark.parametrize(("curves", "sign", "pair"), [
    ({"completion_mean": line(120, 40)}, "shorter_completions", ("reward", "completion_mean")),
    ({"completion_mean": line(40, 120)}, "longer_completions", ("reward", "completion_mean")),
    ({"completions_distinct_pairs": line(0.8, 0.3)}, "less_variety", ("reward", "completions_distinct_pairs")),
    ({"completions_shared": line(0.0, 0.6)}, "one_answer_for_all", ("reward", "completions_shared"))])
def test_a_reward_that_rises_while_another_curve_goes_the_wrong_way_is_told_with_both(curves, sign, pair):
    found = signs_of({"reward": RISING, **curves}, {}, [])
    assert [(one.name, one.curves) for one in found] == [(sign, pair)]
    assert "rose from" in found[0].words
    assert signs_of({"reward": line(0.5, 0.5), **curves}, {}, []) == []
    assert signs_of({"reward": RISING[:9], **curves}, {}, []) == []


def test_each_sign_in_the_docs_is_one_that_can_appear_and_is_raised_above():
    """A run that samples takes no validation data, so no validation loss can stand beside its reward."""
    table = Path("docs/rollouts.md").read_text().partition("| sign |")[2].partition("\n\n")[0]
    told = re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:]))
    assert sorted(told) == sorted(re.findall(r'Sign\("(\w+)"', inspect.getsource(signs)))
    assert "validation_worse" not in told


def test_a_term_that_falls_while_the_whole_rises_is_named():
    found = signs_of({"reward": RISING}, {"exact": line(0.5, 0.2), "format": line(0.1, 0.5)}, [])
    assert [(one.name, one.curves) for one in found] == [("term_falls", ("reward", "term.exact.mean"))]


@pytest.mark.parametrize(("scores", "is_told"), [
    ([(0, 0.62, 0.03), (40, 0.41, 0.03)], True), ([(0, 0.4, 0.0), (20, 0.7, 0.05), (40, 0.5, 0.05)], True),
    ([(0, 0.62, 0.1), (40, 0.55, 0.1)], False), ([(0, 0.4, 0.02), (40, 0.6, 0.02)], False), ([(40, 0.4, 0.0)], False)])
def test_a_score_on_evaluation_data_that_falls_beyond_its_intervals_is_told(scores, is_told):
    found = signs_of({"reward": RISING}, {}, [[HeldOut(*score, "e", "triage/eval:v1", "exact") for score in scores]])
    assert [one.name for one in found] == (["held_out_worse"] if is_told else [])
    assert not is_told or found[0].curves == ("reward", "evaluation")


def test_chance_between_updates_is_no_trend():
    flat = trend_of(line(0.5, 0.5, noise=0.4))
    assert not flat.is_certain
    assert not flat.fell(0.0)


def test_what_a_prompt_asks_is_the_text_of_its_last_message():
    parts = [{"type": "text", "text": "Look"}, {"type": "image"}, {"type": "text", "text": "here"}]
    assert asked_of([{"role": "system", "content": "s"}, {"role": "user", "content": parts}]) == "Look\n\nhere"
    assert asked_of([{"role": "assistant", "content": None}]) == asked_of([]) == ""


@pytest.mark.requirement("R274")
def test_a_jobs_line_is_read_as_it_is_written():
    path = Path(__file__).resolve().parents[1] / "rollout_line.json"
    (line,) = read_rollouts(path)
    assert msgspec.to_builtins(line) == json.loads(path.read_text())
