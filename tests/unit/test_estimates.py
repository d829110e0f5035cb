"""What a run would take, and that a figure nothing supports has no value."""

from typing import Any

import pytest

from runs.estimates import (
    Figure,
    Price,
    Rows,
    computed_pace,
    estimate,
    estimate_cost,
    estimate_steps,
    operations_a_token,
    settings_behind,
    unknown,
)
from tests.unit.resolving import resolved

FREE, PRICED = Price(None, "cpu"), Price(3.6, "h200")
MEASURED = Figure(100.0, "measured", "As in the run abc.")


def rows(examples: int = 100, tokens: float | None = 20_000) -> Rows:
    return Rows(examples, unknown("Nobody counted.") if tokens is None else Figure(tokens, "analysis", "Analysed."))


def estimates(config: dict[str, Any] | None = None, **known: Any) -> Any:
    stated = {"gpus": 1, "rows": rows(), "validation": None, "pace": MEASURED, "price": FREE}
    return estimate(resolved(config).config, **(stated | known))


def test_updates_are_counted_from_the_rows_the_batch_and_the_epochs():
    found = estimates({"hyperparams": {"training": {"epochs": 2, "microBatchPerGpu": 4, "gradientAccumulation": 2}}})
    assert (found.steps.value, found.steps.source) == (26, "computed")
    assert found.steps.note == "100 rows, 8 an update, 2 epochs."


def test_max_steps_ends_the_count_and_shortens_the_time():
    whole = estimates({"hyperparams": {"training": {"epochs": 1}}})
    ended = estimates({"hyperparams": {"training": {"epochs": 1, "maxSteps": 4}}})
    assert (whole.steps.value, ended.steps.value) == (13, 4)
    assert ended.seconds.value == pytest.approx(whole.seconds.value * 4 / 13, abs=0.1)
    assert "maxSteps" in ended.steps.note


def test_packed_rows_are_counted_by_their_tokens_and_unknown_without_them():
    packed = {"data": {"packing": True}, "maxSeqLength": 1000, "hyperparams": {"training": {
        "epochs": 1, "microBatchPerGpu": 1, "gradientAccumulation": 4}}}
    assert estimates(packed).steps.value == 5
    assert estimates(packed).steps.source == "analysis"
    found = estimates(packed, rows=rows(tokens=None))
    assert (found.steps.value, found.steps.source, found.seconds.value) == (None, "unknown", None)
    assert "Nobody counted." in found.steps.note


def test_time_is_the_tokens_over_the_measured_pace_and_says_so():
    found = estimates({"hyperparams": {"training": {"epochs": 3}}})
    assert (found.seconds.value, found.seconds.source) == (600.0, "measured")
    assert "As in the run abc." in found.seconds.note
    assert "Analysed." in found.seconds.note


def test_validations_cost_half_of_what_updates_do():
    once = {"hyperparams": {"training": {"epochs": 1, "validationFrequencySteps": 1000}}}
    assert estimates(once, validation=rows(50, 4_000)).seconds.value == pytest.approx(200 + 20)


@pytest.mark.parametrize("missing", [{"rows": rows(tokens=None)}, {"pace": unknown("No run was measured.")},
                                     {"rows": None}])
def test_time_and_cost_are_unknown_where_anything_they_need_is(missing):
    found = estimates(price=PRICED, **missing)
    assert (found.seconds.value, found.seconds.source, found.cost.value) == (None, "unknown", None)
    assert found.seconds.note


def test_cost_is_device_seconds_times_the_rate():
    found = estimate_cost(Figure(1000.0, "measured", ""), gpus=2, price=PRICED)
    assert (found.value, found.source) == (2.0, "measured")
    assert estimate_cost(Figure(1000.0, "measured", ""), gpus=2, price=FREE).value is None


def test_arithmetic_stands_in_for_a_measurement_and_says_that_it_does():
    plain = computed_pace(parameters=10**9, operations=4, teraflops=100, device="h200")
    again = computed_pace(parameters=10**9, operations=6, teraflops=100, device="h200")
    assert plain.value == pytest.approx(7500)
    assert again.value == pytest.approx(5000)
    assert plain.note.startswith("Not measured")


@pytest.mark.parametrize(("parameters", "teraflops"), [(None, 100.0), (10**9, None)])
def test_arithmetic_without_its_numbers_is_no_figure(parameters, teraflops):
    found = computed_pace(parameters=parameters, operations=4, teraflops=teraflops, device="cpu")
    assert (found.value, found.source) == (None, "unknown")


def test_a_reinforcement_run_s_updates_are_counted_and_their_arithmetic_is_said():
    rl = {"promptsPerStep": 10, "groupSize": 4, "epochs": 2}
    found = estimate_steps(resolved({"method": "grpo", "rlHyperparams": rl}).config, rows())
    assert (found.value, found.source) == (20, "computed")
    assert "10 prompts × 4 completions = 40 completions a step" in found.note
    stated = estimate_steps(resolved({"method": "grpo", "rlHyperparams": {"maxSteps": 7}}).config, rows())
    assert (stated.value, stated.note.endswith("as rlHyperparams.maxSteps states.")) == (7, True)


def test_the_example_of_sums_takes_about_as_long_as_it_took():
    """50 updates of 6 prompts with 8 completions took about 12 minutes on two cores: 23,703 tokens of 299 prompts, 8 of
    each completion, at 0.18 teraflops × 30 % over 6 operations for each of 134.5 million parameters."""
    config = {"method": "grpo", "maxSeqLength": 128, "rlHyperparams": {
        "maxSteps": 50, "promptsPerStep": 6, "groupSize": 8, "klBeta": 0, "maxCompletionLength": 8}}
    pace = computed_pace(parameters=134_515_008, operations=operations_a_token(resolved(config).config),
                         teraflops=0.18, device="cpu")
    found = estimates(config, rows=rows(299, 23_703 + 299 * 8 * 8), pace=pace)
    assert found.seconds.value == pytest.approx(12 * 60, rel=0.15)


@pytest.mark.parametrize(("config", "operations"), [
    ({}, 4), ({"model": {"gradientCheckpointing": True}}, 6), ({"method": "grpo"}, 8),
    ({"method": "grpo", "rlHyperparams": {"klBeta": 0}}, 6)])
def test_a_token_costs_what_its_way_through_an_update_takes(config, operations):
    """Forward and back, a recomputation, a reference, and sampling it in the first place: each way forward is 2."""
    assert operations_a_token(resolved(config).config) == operations


@pytest.mark.parametrize(("training", "operations"), [
    ({"epochs": 1}, 4 + 2), ({"epochs": 4}, 4 + 2 / 4), ({"epochs": 4, "maxSteps": 20}, 4 + 2 / 2),
    ({"epochs": 4, "maxSteps": 5}, 4 + 2)])
def test_a_preference_run_s_reference_is_read_once_for_all_epochs_it_makes(training, operations):
    """100 pairs, 10 an update: 2 forward and 2 back, and 2 forward for the reference in one epoch of so many."""
    training = training | {"microBatchPerGpu": 2, "gradientAccumulation": 5}
    config = {"method": "dpo", "hyperparams": {"training": training}, "model": {"gradientCheckpointing": False}}
    assert operations_a_token(resolved(config).config, 100) == operations
    assert operations_a_token(resolved(config).config) == 4 + 2 / training["epochs"]
    config["model"] = {"gradientCheckpointing": True}
    assert operations_a_token(resolved(config).config, 100) == operations + 2


def test_each_setting_behind_the_estimates_says_whether_it_was_stated():
    found = resolved({"hyperparams": {"training": {"epochs": 2}}}, execution={"gpus": 1})
    listed = {row["setting"]: (row["value"], row["from"])
              for row in settings_behind(found.config, found.execution, found.stated)}
    assert listed["training.epochs"] == (2, "stated")
    assert listed["execution.gpus"] == (1, "stated")
    assert listed["execution.deviceProfile"] == ("cpu", "default")
    assert listed["config.maxSeqLength"] == (2048, "default")
