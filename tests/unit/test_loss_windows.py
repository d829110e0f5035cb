"""Runs beside each other: windows of updates, where they part, spikes, what configurations differ in, the picture."""

import math

import pytest

from runs.differences import side_by_side
from runs.lineage_picture import BETWEEN_ROWS, HEIGHT, MOST_NODES, draw
from runs.loss_windows import first_parting, spikes_of, windows_of


def test_a_window_is_the_mean_difference_over_the_updates_that_both_runs_reported():
    base = dict.fromkeys(range(1, 8), 1.0) | {2: math.nan}
    other = {1: 1.5, 2: 9.0, 3: 1.1, 4: None, 6: 0.5, 99: 3.0}
    assert windows_of(base, other, 3) == [
        {"first": 1, "last": 3, "updates": 2, "meanDifference": pytest.approx(0.3)},
        {"first": 4, "last": 6, "updates": 1, "meanDifference": pytest.approx(-0.5)}]


def test_two_runs_part_in_the_first_window_over_the_margin_up_or_down():
    windows = [{"first": 1, "meanDifference": 0.05}, {"first": 4, "meanDifference": -0.2},
               {"first": 7, "meanDifference": 0.9}]
    assert first_parting(windows, 0.05)["first"] == 4
    assert first_parting(windows, 1.0) is None
    assert first_parting([], 0.0) is None


def test_a_spike_is_over_so_many_times_the_runs_median_or_not_finite():
    norms = {1: 1.0, 2: 1.0, 3: 3.1, 4: None, 5: math.inf, 6: 2.9}
    found = spikes_of(norms, 1.4)
    assert [(spike["step"], spike["gradNorm"]) for spike in found] == [(3, 3.1), (5, None), (6, 2.9)]
    assert spikes_of({1: 0.0, 2: 0.0}, 3.0) == []


def test_settings_stand_side_by_side_only_where_any_of_them_differs():
    configs = [{"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"b": 1, "c": 2}, "d": []}]
    assert side_by_side(configs) == [{"path": "a.c", "values": [2, 3, 2]}, {"path": "d", "values": [None, None, []]}]
    assert side_by_side([configs[0], configs[0]]) == []


def run(name, *branches):
    return {"runId": name, "configName": name, "budgetSteps": 4, "observedStep": 2,
            "lastFigure": {"name": "reward", "value": 0.5} if branches else None, "branches": list(branches)}


def test_a_tree_is_drawn_without_two_boxes_in_one_place():
    picture = draw(run("root", run("a", run("b"), run("c")), run("d")), here="c")
    places = [(node.x, node.y) for node in picture.nodes]
    assert len(set(places)) == 5
    assert len(picture.lines) == 4
    by_name = {node.run["runId"]: node for node in picture.nodes}
    assert by_name["d"].y > by_name["c"].y > by_name["b"].y == by_name["a"].y == by_name["root"].y
    assert [name for name, node in by_name.items() if node.is_self] == ["c"]
    assert picture.height == by_name["d"].y + HEIGHT + 4
    assert (by_name["a"].progress, by_name["b"].progress) == ("2 of 4 updates, reward 0.5", "2 of 4 updates")


def test_a_wide_tree_is_cut_and_says_so():
    picture = draw(run("root", *(run(f"branch-{number}") for number in range(MOST_NODES + 9))), here="root")
    assert picture.is_cut and len(picture.nodes) == MOST_NODES
    assert picture.height < (MOST_NODES + 1) * (HEIGHT + BETWEEN_ROWS)


def test_a_long_name_is_shortened_in_its_box():
    (node,) = draw(run("a" * 200), here="").nodes
    assert len(node.title) == 26 and node.title.endswith("…")
