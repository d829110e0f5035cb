"""The server's half of the job seam: event types, plans, and finding the job environment."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from datasets import strict_json
from gpu_worker import launch, processes
from gpu_worker.engines import events, plans, write_schema
from optimize_site.kernel.plan_parts import base_model_part, rows_part
from optimize_site.kernel.work import Ask
from optimize_site.processes import Identity
from runs.plan import supervised_body

COMMON = {
    "attempt": "a" * 64,
    "subject": {"kind": "run", "id": "b" * 64},
    "threads": 2,
    "device": {"kind": "cpu", "uuids": []},
}


def line(**fields) -> bytes:
    return json.dumps({"v": 1, "t": 1.5, **fields}).encode()


def test_the_schema_file_is_that_of_the_present_types():
    assert write_schema.PATH.read_text() == write_schema.text()


def test_a_line_of_the_log_becomes_its_event():
    event = events.parse_event(line(type="metrics", step=3, values={"loss": 0.25, "grad_norm": None}))
    assert isinstance(event, events.Metrics)
    assert (event.step, event.values["loss"], event.t) == (3, 0.25, 1.5)
    assert event.document()["type"] == event.type == "metrics"


def test_an_updates_scored_completions_are_told_by_the_file_that_holds_them():
    event = events.parse_event(line(type="rollouts", step=12, file="rollouts/00000012.jsonl", count=32))
    assert isinstance(event, events.Rollouts)
    assert (event.step, event.file, event.count) == (12, "rollouts/00000012.jsonl", 32)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"Traceback (most recent call last):",
        b"[1]",
        line(type="weather", sunny=True),
        line(type="metrics", step="x"),
        json.dumps({"v": 2, "t": 1, "type": "stage", "name": "a"}).encode(),
        b'{"v": 1, "t": 1, "type": "sta',
    ],
)
def test_a_line_that_is_no_event_is_none(text):
    assert events.parse_event(text) is None


def test_a_job_can_say_that_it_stopped_for_whatever_a_worker_asks():
    reasons = [*filter(None, get_args(Ask)), "unwatched"]
    told = [events.parse_event(line(type="stopped", reason=reason)) for reason in reasons]
    assert [event and event.reason for event in told] == reasons


def test_a_field_that_a_later_job_adds_is_passed_over():
    assert events.parse_event(line(type="stage", name="loading", colour="red")) is not None


def body(**changes) -> dict:
    part = base_model_part(folder="/m", revision="r", repository="x/y", chat_template_sha256="")
    rows = rows_part(["/d/a.jsonl"], content_hash="c", num_examples=3, name="ns/d:v1")
    stated = {
        "base_model": part,
        "dataset": rows,
        "validation": None,
        "config": {"method": "sft"},
        "execution": {},
        "resume": None,
        "start": None,
        "total_steps": None,
        "pause_at": None,
        "smoke": None,
        "is_first_attempt": True,
        "strict": False,
    }
    return supervised_body(**stated) | changes


def test_a_supervised_runs_plan_is_complete_and_leaves_nothing_to_a_default():
    plan = plans.complete(body(), **COMMON)
    assert plan["version"] == 1
    assert plan["unwatched_seconds"] == 600
    assert plan["dataset"]["num_examples"] == 3
    assert plan["subject"] == COMMON["subject"]
    assert json.loads(json.dumps(plan)) == plan


def test_a_plan_that_lacks_something_is_refused_by_the_name_of_the_field():
    lacking = body()
    del lacking["base_model"]["revision"]
    with pytest.raises(plans.PlanIncomplete, match=r"revision.*base_model"):
        plans.complete(lacking, **COMMON)


def test_the_box_can_write_a_plan_for_every_entry_that_a_job_has():
    source = (Path(write_schema.PATH).parent / "job.py").read_text()
    entries = ast.literal_eval(re.search(r"^ENTRIES = (\{.*?^\})", source, re.M | re.S).group(1))
    assert set(plans.PLAN_TYPES) == set(entries)
    assert plans.complete(body(entry="dpo"), **COMMON)["entry"] == "dpo"


def test_a_plan_with_a_setting_nobody_knows_is_refused():
    with pytest.raises(plans.PlanIncomplete, match="colour"):
        plans.complete(body(colour="red"), **COMMON)
    with pytest.raises(plans.PlanIncomplete, match="entry"):
        plans.complete(body(entry="dance"), **COMMON)


def test_a_body_without_an_entry_is_another_starters_business():
    assert plans.complete({"events": []}, **COMMON)["events"] == []


def test_an_evaluation_states_its_systems_and_gets_its_limits_written_in():
    plan = plans.complete(
        {
            "entry": "evaluate",
            "systems": [{"name": "base"}],
            "rows": {"files": ["/d"]},
            "base_model": {"folder": "/m", "revision": "r", "repository": "x/y"},
        },
        **COMMON,
    )
    assert plan["systems"] == [{"name": "base", "adapter": None}]
    assert (plan["max_new_tokens"], plan["skip_positions"], plan["merge"]) == (512, [], True)


def test_the_launcher_and_the_prepared_process_name_the_code_alike():
    code = "from optimize_child.code import code_version; print(code_version())"
    environment = {**os.environ, "PYTHONPATH": str(launch.CHILD_ROOT)}
    theirs = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert theirs.stdout.strip() == launch.code_version()


def test_the_search_for_what_is_wrong_with_a_line_is_one_text_on_both_sides():
    def without_docstring(file):
        return file.read_text().split('"""', 2)[2]

    sides = (launch.CHILD_ROOT / "optimize_child" / "reading", Path(strict_json.__file__).parent)
    ours, theirs = (without_docstring(folder / "json_faults.py") for folder in sides)
    assert ours == theirs


def test_a_missing_job_environment_says_how_to_make_it(monkeypatch, tmp_path):
    monkeypatch.setenv("OPTIMIZE_JOBS_VENV", str(tmp_path))
    with pytest.raises(launch.JobsNotInstalled, match=r"\./optimize up"):
        launch.job_python()


def test_a_jobs_path_holds_the_job_package_and_nothing_else_of_ours():
    variables = launch.job_environment({"CUDA_VISIBLE_DEVICES": ""})
    assert variables["PYTHONPATH"] == str(launch.CHILD_ROOT)
    assert variables["PYTHONSAFEPATH"] == "1"
    assert [path.name for path in launch.CHILD_ROOT.iterdir() if path.name != "__pycache__"] == ["optimize_child"]


def test_a_process_is_alive_only_while_its_start_time_is_the_same():
    me = Identity.of(os.getpid())
    assert me is not None and me.is_alive()
    assert not Identity(me.pid, me.started - 1).is_alive()
    assert Identity.of(2**22 + 1) is None


def test_an_attempt_that_no_shepherd_took_has_no_processes(tmp_path: Path):
    assert processes.recorded(tmp_path) == []
