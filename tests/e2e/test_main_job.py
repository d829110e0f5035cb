"""The main job on a real box: real Postgres, real Celery, real training, with a browser, commands and HTTP alone."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e import clicks
from tests.e2e.conftest import Box
from tests.e2e.http import Http
from tests.e2e.tiny_box import TINY, add_tiny_model, ask, descriptor


@pytest.fixture(scope="module")
def box(scratch_home: Path, material: Path):
    it = Box(scratch_home)
    add_tiny_model(it, material)
    it.up()
    yield it
    it.down()


@pytest.mark.skipif(not clicks.IS_WANTED, reason="there is no Chromium here")
@pytest.mark.requirement("R003")
def test_with_a_browser_alone_a_file_becomes_a_promoted_model(box, material):
    with clicks.signed_in(box) as page:
        clicks.choose_base_model(page, box, TINY)
        for name in ("train", "eval"):
            clicks.upload(page, box, f"clicks/{name}", material / f"{name}.jsonl")
        clicks.make_workload(page, box, "clicks")
        clicks.train(page, "clicks")
        clicks.evaluate_and_promote(page, box, "clicks")
        expect(page.get_by_role("main")).to_contain_text("is the champion of clicks")
    run = ask(box, "runs", "list", "--workload", "clicks")["runs"][0]
    assert ask(box, "workloads", "refs", "get", "clicks", "champion")["modelId"] == run["modelId"]


@pytest.mark.requirement("R007", "R018", "R019", "R021", "R022", "R024", "R174", "R188")
def test_with_commands_alone_a_file_becomes_a_promoted_model(box, material):
    ask(box, "base-models", "select", TINY, "--wait")
    for name in ("train", "eval"):
        ask(box, "registry", "datasets", "register", f"triage/{name}", "-f", str(material / f"{name}.jsonl"))
    ask(box, "workloads", "create", "triage", "--dataset", "triage/eval", "--grader", "json-label-match")
    started = box.run("runs", "start", "-f", str(material / "run.json"), "--wait", "--exit-status", "-q")
    assert started.returncode == 0, started.stdout + started.stderr
    run = ask(box, "runs", "list")["runs"][0]
    run = ask(box, "runs", "get", run["runId"])
    assert (run["phase"], run["observedStep"], run["savedStep"]) == ("COMPLETED", 20, 20)
    done = box.run(
        "evaluations", "start", "--model", run["modelId"], "--dataset", "triage/eval", "--wait", "--exit-status", "-q"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ask(box, "workloads", "promote", "triage", run["modelId"])
    assert ask(box, "workloads", "refs", "get", "triage", "champion")["modelId"] == run["modelId"]


@pytest.mark.requirement("R004", "R006", "R010", "R012")
def test_with_http_alone_a_file_becomes_a_promoted_model(box, material):
    http = Http(box, ask(box, "tokens", "create", "curl")["token"])
    http.post(f"/v1/training/base-models/{TINY}/select", {})
    http.follow(f"/v1/training/base-models/{TINY}", "selection", {"READY"})
    for name in ("train", "eval"):
        http.call(
            "POST",
            f"/v1/registry/datasets/web/{name}/versions",
            (material / f"{name}.jsonl").read_bytes(),
            "application/octet-stream",
        )
    http.post("/v1/training/workloads", {"name": "web", "dataset": "web/eval", "grader": "json-label-match"})
    body = descriptor(max_steps=10, workload="web")
    body["config"]["dataset"] = "web/train"
    started = http.post("/v1/training/runs", body)
    run = http.follow(f"/v1/training/runs/{started['runId']}", "phase", {"COMPLETED", "FAILED", "CANCELLED"})
    assert run["phase"] == "COMPLETED", run["failureReason"]
    made = http.post("/v1/training/evaluations", {"model": run["modelId"], "dataset": "web/eval"})
    scored = http.follow(f"/v1/training/evaluations/{made['evaluationId']}", "phase", {"COMPLETED", "FAILED"})
    assert scored["phase"] == "COMPLETED"
    http.post("/v1/training/workloads/web/promote", {"model": run["modelId"]})
    assert http.call("GET", "/v1/training/workloads/web/refs/champion")["modelId"] == run["modelId"]


def test_the_demo_ends_with_one_document_and_a_second_one_uses_what_is_there(box, material):
    words = ("demo", "--base-model", TINY, "--example", str(material))
    first, second = ask(box, *words), ask(box, *words)
    assert first["phase"] == "COMPLETED"
    assert set(first) == {"runId", "phase", "modelId", "baseline", "candidate", "champion", "url", "seconds"}
    assert (first["runId"], first["champion"]) == (second["runId"], second["champion"])


@pytest.mark.requirement("R044")
def test_fifty_submissions_of_one_id_at_once_are_one_run(box, material):
    from concurrent.futures import ThreadPoolExecutor

    http = Http(box, ask(box, "tokens", "create", "parallel")["token"])
    body = descriptor(max_steps=1, submissionId="the-same")
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: http.post("/v1/training/runs", body)["runId"], range(50)))
    assert len(set(answers)) == 1
