"""The main job from end to end, through the box's own API: select, register, train, score, promote."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optimize_site.kernel.client import Client
from optimize_site.kernel.errors import NotFound, OperationError
from optimize_site.kernel.hashing import sha256_json

EXAMPLE = Path(__file__).resolve().parent.parent / "catalogs" / "examples" / "support-triage"
WORKLOAD, GRADER = "support-triage", "json-label-match"
ANSWER_TOKENS = 40
OVER = {"COMPLETED", "FAILED", "CANCELLED"}
POLL_SECONDS = 0.5
Tell = Callable[[str], None]


class DemoFailed(OperationError):
    """A step of the demo ended badly; the sentence says which and why."""

    code, exit_code, title = "demo_failed", 5, "The demo did not get through"


class Demo:
    """One pass over the main job. What an earlier pass left is used again."""

    def __init__(self, client: Client, *, tell: Tell, base_model: str = "", example: Path = EXAMPLE):
        self.client, self.tell, self.example = client, tell, example
        self.descriptor: dict[str, Any] = json.loads((example / "run.json").read_text())
        self.base_model = base_model or self.descriptor["baseModel"]
        self.descriptor |= {"baseModel": self.base_model, "workload": WORKLOAD}
        self.seconds: dict[str, float] = {}

    def run(self, web_url: str) -> dict[str, Any]:
        """Do it all; gives the closing document. Raises DemoFailed, or the refusal of a step."""
        with self._timed("select"):
            self.select_base_model()
        with self._timed("register"):
            versions = [self.register(name) for name in ("train", "eval")]
            self.make_workload()
        with self._timed("train"):
            baseline = self.start_evaluation(self.base_model, versions)
            run = self.train(versions)
        with self._timed("evaluate"):
            candidate = self.finish(self.start_evaluation(run["modelId"], versions), "the trained model")
            baseline = self.finish(baseline, "the untouched base")
        champion = self.promote(run["modelId"])
        return {"runId": run["runId"], "phase": run["phase"], "modelId": run["modelId"],
                "baseline": _score(baseline), "candidate": _score(candidate), "champion": champion,
                "url": f"{web_url}/runs/{run['runId']}", "seconds": self.seconds}

    def select_base_model(self) -> None:
        """Have the base model prepared, and wait until it is."""
        self.tell(f"Preparing the base model {self.base_model} …")
        self.client.post(f"/v1/training/base-models/{self.base_model}/select")
        shown = ""
        while True:
            found = self.client.get(f"/v1/training/base-models/{self.base_model}")
            if found.get("selection") == "READY":
                return
            if found.get("failureReason"):
                raise DemoFailed(f"The base model could not be prepared: {found['failureReason']}")
            shown = self._tell_once(_share(found.get("progress"), "Preparing the base model"), shown)
            time.sleep(POLL_SECONDS)

    def register(self, name: str) -> dict[str, Any]:
        """Register one of the example's files; the same bytes give the version there is."""
        path = f"/v1/registry/datasets/{WORKLOAD}/{name}/versions"
        made = self.client.send_file(path, self.example / f"{name}.jsonl")
        self.tell(f"Registered {made['reference']}: {made['exampleCount']} examples.")
        return dict(made)

    def make_workload(self) -> None:
        """The workload, judged on the held-out tickets."""
        try:
            self.client.get(f"/v1/training/workloads/{WORKLOAD}")
        except OperationError as error:
            if error.status != NotFound.status:
                raise
            self.client.post("/v1/training/workloads", {"name": WORKLOAD, "dataset": f"{WORKLOAD}/eval",
                                                        "grader": GRADER})

    def start_evaluation(self, model: str, versions: list[dict[str, Any]]) -> dict[str, Any]:
        """Start scoring a model on the held-out tickets, or find the evaluation that already did."""
        body = {"model": model, "dataset": versions[1]["reference"], "grader": GRADER, "workload": WORKLOAD,
                "maxCompletionTokens": ANSWER_TOKENS}
        return self._submit("/v1/training/evaluations", body, "evaluationId")

    def train(self, versions: list[dict[str, Any]]) -> dict[str, Any]:
        """Train, following the run to its end."""
        body = self.descriptor | {"config": self.descriptor["config"] | {"dataset": versions[0]["reference"]}}
        run = self._submit("/v1/training/runs", body, "runId")
        self.tell(f"Training: run {run['runId'][:12]}")
        run = self._follow(f"/v1/training/runs/{run['runId']}", _run_progress)
        if run["phase"] != "COMPLETED":
            raise DemoFailed(f"The run ended as {run['phase']}: {run.get('failureReason') or 'see its page'}")
        return run

    def finish(self, evaluation: dict[str, Any], whose: str) -> dict[str, Any]:
        """Wait for an evaluation."""
        ended = self._follow(f"/v1/training/evaluations/{evaluation['evaluationId']}",
                             lambda document: _answers(document, whose))
        if ended["phase"] != "COMPLETED":
            raise DemoFailed(f"Scoring {whose} ended as {ended['phase']}: {ended.get('failureReason')}")
        return ended

    def promote(self, model_id: str) -> str:
        """Make the model the champion, unless it is. Gives the champion's reference."""
        found = self.client.get(f"/v1/training/workloads/{WORKLOAD}")
        champion = (found.get("references") or {}).get("champion")
        if champion and champion["modelId"] == model_id:
            return str(champion["reference"])
        moved = self.client.post(f"/v1/training/workloads/{WORKLOAD}/promote", {"model": model_id})
        self.tell(f"Promoted {moved['reference']}.")
        return str(moved["reference"])

    def _submit(self, path: str, body: dict[str, Any], id_field: str) -> dict[str, Any]:
        """Submit under an ID that the same body always gives; where that work failed, under the next one."""
        for number in range(1, 100):
            answer = self.client.post(path, body | {"submissionId": f"demo-{number}-{sha256_json(body)[:32]}"})
            found = dict(self.client.get(f"{path}/{answer[id_field]}"))
            if found["phase"] not in OVER - {"COMPLETED"}:
                return found
        raise DemoFailed("A hundred earlier demos failed in a row.", hint="Look at the last one's page for why.")

    def _follow(self, path: str, describe: Callable[[dict[str, Any]], str]) -> dict[str, Any]:
        shown = ""
        while True:
            document = dict(self.client.get(path))
            if document["phase"] in OVER:
                return document
            shown = self._tell_once(describe(document), shown)
            time.sleep(POLL_SECONDS)

    def _tell_once(self, sentence: str, shown: str) -> str:
        if sentence and sentence != shown:
            self.tell(sentence)
        return sentence

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 1)


def _score(evaluation: dict[str, Any]) -> dict[str, Any]:
    report = evaluation.get("report") or {}
    return {"meanScore": report.get("meanScore"), "exactMatchRate": report.get("exactMatchRate"),
            "evaluationId": evaluation["evaluationId"]}


def _share(progress: dict[str, Any] | None, what: str) -> str:
    if not progress or not progress.get("total"):
        return ""
    return f"{what}: {progress['done'] / progress['total']:.0%}"


def _run_progress(run: dict[str, Any]) -> str:
    progress = run.get("progress") or {}
    if run["phase"] != "TRAINING" or not progress.get("totalSteps"):
        return f"  {run['phase'].replace('_', ' ').lower()}"
    step, total = run["observedStep"], progress["totalSteps"]
    return f"  step {step - step % max(1, total // 8)} of {total}"


def _answers(evaluation: dict[str, Any], whose: str) -> str:
    done, total = evaluation.get("answered", 0), evaluation.get("rows", 0)
    if not total:
        return f"Scoring {whose}"
    return f"Scoring {whose}: {done - done % max(1, total // 4)} of {total} rows"
