"""Having answers scored that are there already: batches, verdicts as events, what a scorer's end costs."""

import json
import sys

from jobs import failure, prepare
from jobs import run as run_job
from optimize_child.failures import Stopped
from tiny import events_of, read_events

SCORER = """
import json, sys
spec = json.loads(sys.stdin.readline())
print(json.dumps({"ready": True} if spec["ready"] else
                 {"ready": False, "code": "refused_host", "reason": "The host leads home.", "hint": "Name another."}),
      flush=True)
for line in sys.stdin:
    request = json.loads(line)
    verdicts = [{"score": None if item["completion"] == "?" else len(item["completion"]) / 10, "isExact": False,
                 "fields": {"short": True}, "explanation": f"of {len(request['items'])}",
                 "cause": "timeout" if item["completion"] == "?" else ""} for item in request["items"]]
    print(json.dumps({"id": request["id"], "terms": [{"name": "grader", "seconds": 0.1, "tokens": 0,
                                                      "verdicts": verdicts}]}), flush=True)
"""


def plan_of(folder, answers, *, ready=True, batch=2):
    """A plan to have these answers scored; `row` is their place in the dataset, from 10 on."""
    folder.mkdir(exist_ok=True)
    items = folder / "items.jsonl"
    items.write_text("".join(json.dumps({"row": 10 + row, "prompt": [], "tools": None, "completion": answer,
                                         "calls": None, "expected": ""}) + "\n" for row, answer in enumerate(answers)))
    scorer = {"command": [sys.executable, "-c", SCORER], "cwd": str(folder), "spec": {"ready": ready}}
    return {"entry": "score", "threads": 1, "device": {"kind": "cpu", "uuids": []}, "scorer": scorer,
            "items": str(items), "batch": batch}


def test_each_answer_gets_its_verdict_as_an_event_batch_by_batch(tmp_path):
    attempt = run_job(tmp_path / "attempt", plan_of(tmp_path / "data", ["abc", "?", "a\u2028b\U0001f600", "", "x"]))
    found = events_of(attempt, "scored")
    assert [(event["position"], event["score"], event["cause"]) for event in found] == [
        (10, 0.3, ""), (11, None, "timeout"), (12, 0.4, ""), (13, 0.0, ""), (14, 0.1, "")]
    assert [event["explanation"] for event in found] == ["of 2", "of 2", "of 2", "of 2", "of 1"]
    assert [event.get("done") for event in events_of(attempt, "stage")] == [None, 0, 2, 4, 5]
    assert read_events(attempt)[-1]["type"] == "finished" and read_events(attempt)[-1]["answers"] == 5


def test_a_scorer_that_cannot_score_fails_the_job_with_its_own_reason(tmp_path):
    attempt = run_job(tmp_path / "attempt", plan_of(tmp_path / "data", ["abc"], ready=False))
    said = failure(attempt)
    assert said["code"] == "scorer_not_ready" and said["reason"] == "The grader cannot score: The host leads home."
    assert said["hint"] == "Name another."
    assert not events_of(attempt, "scored")


def test_a_job_that_is_asked_to_leave_keeps_what_was_scored(tmp_path, monkeypatch):
    from optimize_child import score
    from optimize_child.job import Job

    attempt = prepare(tmp_path / "attempt", plan_of(tmp_path / "data", ["a", "b", "c", "d"]))
    job = Job(attempt)

    def leave():
        if events_of(attempt, "scored"):
            raise Stopped("stop")

    monkeypatch.setattr(job, "leave_if_asked", leave)
    try:
        score.run(job)
    except Stopped:
        assert [event["position"] for event in events_of(attempt, "scored")] == [10, 11]
    else:
        raise AssertionError("it went on")
