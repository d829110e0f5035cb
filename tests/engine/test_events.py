"""The job's half of the event format."""

import json
from pathlib import Path

import optimize_child
import pytest
from optimize_child.events import FIELDS, VERSION, EventLog

SCHEMA = json.loads((Path(optimize_child.__file__).parent / "events.schema.json").read_text())


def test_the_events_a_job_writes_are_those_of_the_schema_file():
    ours = {name: {"required": sorted(a), "optional": sorted(b)} for name, (a, b) in FIELDS.items()}
    assert ours == SCHEMA["events"]
    assert SCHEMA["version"] == VERSION


def test_each_event_is_one_line_of_json(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    log.emit("stage", name="loading\nmodel", done=1, total=2)
    log.emit("metrics", step=1, values={"loss": 0.1 + 0.2}, sync=True)
    first, second = (tmp_path / "events.jsonl").read_text().splitlines()
    assert json.loads(first)["name"] == "loading\nmodel"
    assert json.loads(second)["values"]["loss"] == 0.1 + 0.2


def test_numbers_that_json_does_not_have_become_null(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    log.emit("metrics", step=1, values={"loss": float("nan"), "grad_norm": float("inf")})
    assert json.loads((tmp_path / "events.jsonl").read_text())["values"] == {"loss": None, "grad_norm": None}


def test_an_event_that_lacks_a_field_or_has_an_unknown_one_is_a_mistake(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    with pytest.raises(ValueError, match="missing"):
        log.emit("failure", code="unexpected")
    with pytest.raises(ValueError, match="unknown"):
        log.emit("stage", name="loading", speed=3)
    with pytest.raises(KeyError):
        log.emit("weather", sunny=True)
