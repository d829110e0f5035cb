"""What the run pages work out from a run's row, and what the guided form writes."""

from datetime import UTC, datetime, timedelta

import pytest

from optimize_site.kernel.errors import InvalidInput
from runs import forms
from runs.descriptor import parse_descriptor
from runs.pages import settings_rows, share_of, strip, title_of

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def test_the_strip_counts_the_present_phase_up_to_now():
    shown = strip("TRAINING", {"AWAITING_CAPACITY": 41_000, "PREPARING": 96_000, "TRAINING": 5_000},
                  NOW - timedelta(seconds=10), NOW)
    by_text = {step.text: step for step in shown}
    assert by_text["Training"].seconds == 15
    assert by_text["Training"].css == "now"
    assert by_text["Waiting"].seconds == 41 and by_text["Waiting"].css == "past"
    assert by_text["End"].seconds is None


def test_the_strip_of_an_ended_run_ends_with_how_it_ended():
    shown = strip("FAILED", {"TRAINING": 5_000, "CLEANING_UP": 200}, NOW, NOW + timedelta(hours=3))
    assert (shown[-1].text, shown[-1].css) == ("Failed", "end-bad")
    assert shown[-1].seconds == pytest.approx(5.2)


def test_phases_a_run_never_has_are_left_out():
    assert "Grader" not in {step.text for step in strip("COMPLETED", {}, NOW, NOW)}
    assert "Grader" in {step.text for step in strip("COMPLETED", {"AWAITING_GRADER": 1}, NOW, NOW)}


def test_progress_is_rows_while_preparing_and_updates_while_training():
    assert share_of("PREPARING", 0, None, {"done": 30, "total": 120}) == 0.25
    assert share_of("TRAINING", 60, 240, {}) == 0.25
    assert share_of("TRAINING", 60, None, {}) is None
    assert share_of("AWAITING_CAPACITY", 0, 240, {}) is None


def test_settings_say_what_was_stated():
    rows = settings_rows({"hyperparams": {"lora": {"rank": 8, "dropout": 0}}}, {"gpus": 1},
                         ["config.hyperparams.lora.rank"])
    assert [(row["path"], row["value"], row["is_stated"]) for row in rows] == [
        ("lora.rank", 8, True), ("lora.dropout", 0, False), ("execution.gpus", 1, False)]


def test_a_run_is_called_by_its_configuration_its_note_or_its_id():
    assert title_of("r8-e2", "note", "a" * 64) == "r8-e2"
    assert title_of("", "first line\nsecond", "a" * 64) == "first line"
    assert title_of("", "", "a" * 64) == f"Run {'a' * 12}"


def test_an_empty_form_writes_the_smallest_document():
    assert forms.document_of({}) == {"kind": "run", "config": {}}


def test_a_filled_form_writes_what_the_descriptor_reads():
    document = forms.document_of({
        "workload": "triage", "config.dataset": "triage/train", "config.hyperparams.optimizer.learningRate": "1e-4",
        "config.hyperparams.training.epochs": "2", "config.data.packing": "true", "execution.saveEvery": "20"})
    parsed = parse_descriptor(document)
    assert parsed.problems == ()
    assert parsed.descriptor.config.hyperparams.optimizer.learning_rate == 0.0001
    assert parsed.descriptor.config.data.packing is True


def test_a_number_that_is_none_is_refused_by_the_descriptor_and_not_by_the_form():
    parsed = parse_descriptor(forms.document_of({"config.hyperparams.lora.rank": "eight"}))
    assert [problem.path for problem in parsed.problems] == ["lora.rank"]


def test_the_form_reads_back_what_it_wrote():
    values = {"workload": "triage", "config.data.shuffle": "false", "config.hyperparams.training.epochs": "2"}
    read = {path: value for path, value in forms.values_of(forms.document_of(values)).items() if value}
    assert read == values


def test_every_field_of_the_form_is_one_of_the_descriptor():
    for field in forms.ALL:
        assert field.help, field.path
        assert field.kind in {"choice", "flag", "whole", "number", "text"}


def test_a_pasted_descriptor_may_be_json_or_yaml_and_nothing_else():
    assert forms.read_document('{"kind": "run"}') == {"kind": "run"}
    assert forms.read_document("kind: run\nworkload: w") == {"kind": "run", "workload": "w"}
    for text in ("", "   ", "{", "a: b: c"):
        with pytest.raises(InvalidInput):
            forms.read_document(text)
    assert forms.read_document(forms.write_document({"kind": "run", "x": [1]})) == {"kind": "run", "x": [1]}
