"""What a branch may change, and how its changes are laid over its parent's configuration."""

import pytest

from runs.errors import RunRefused
from runs.operations.sweeping import overrides_of, values_of
from runs.overrides import budget_problems, laid_over, outside_state, paths_of, shape_problems, without_nothing

PARENT = {"hyperparams": {"lora": {"rank": 8, "alpha": 16}, "optimizer": {"learningRate": 1e-4, "weightDecay": 0}}}


def test_changes_are_laid_over_group_by_group():
    changed = laid_over(PARENT, {"hyperparams": {"optimizer": {"learningRate": 2e-4}}, "maxSeqLength": 512})
    assert changed["hyperparams"] == {"lora": {"rank": 8, "alpha": 16},
                                      "optimizer": {"learningRate": 2e-4, "weightDecay": 0}}
    assert changed["maxSeqLength"] == 512
    assert PARENT["hyperparams"]["optimizer"]["learningRate"] == 1e-4


def test_every_changed_field_is_named_by_its_path():
    assert list(paths_of({"data": {"packing": True}, "method": "dpo"})) == ["data.packing", "method"]
    assert outside_state({"hyperparams": {"optimizer": {"learningRate": 1}, "training": {"seed": 2}}}) == [
        "hyperparams.training.seed"]


def test_a_branch_has_no_other_budget_than_its_steps():
    (problem,) = budget_problems({"hyperparams": {"training": {"epochs": 2, "seed": 1}}})
    assert problem.path == "overrides.hyperparams.training.epochs"


def test_the_adapter_keeps_the_shape_of_its_snapshot():
    (problem,) = shape_problems({"hyperparams": {"lora": {"rank": 16, "alpha": 16}}}, parent=PARENT)
    assert "rank is 16; the snapshot's adapter was made with 8" in problem.message


def test_what_was_left_out_stays_out():
    assert without_nothing({"a": None, "b": {"c": None, "d": 0}}) == {"b": {"d": 0}}


def axis(path, *values):
    return {"path": path, "values": list(values)}


def test_a_grid_runs_through_its_last_axis_fastest_and_keeps_the_kinds_of_its_values():
    points = values_of({"axes": [axis("a.b", 1, "1"), axis("c", 0.5, True)]})
    assert points == [{"a.b": 1, "c": 0.5}, {"a.b": 1, "c": True}, {"a.b": "1", "c": 0.5}, {"a.b": "1", "c": True}]
    assert overrides_of(points[0]) == {"a": {"b": 1}, "c": 0.5}


@pytest.mark.parametrize(("grid", "told"), [
    ({}, "no axes"), ({"axes": []}, "no axes"), ({"axes": [{"values": [1]}]}, "names the field"),
    ({"axes": [axis("a")]}, "no values"), ({"axes": [axis("a", 1), axis("a", 2)]}, "change the same field"),
    ({"axes": [axis("a", 1), axis("a.b", 2)]}, "change the same field"),
    ({"axes": [axis("a", *range(51))]}, "51 points"),
])
def test_a_grid_that_makes_no_sense_is_refused(grid, told):
    with pytest.raises(RunRefused) as refused:
        values_of(grid)
    assert any(told in problem.message for problem in refused.value.problems)
