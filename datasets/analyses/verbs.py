"""The verbs of `datasets` that analyze: clients of the analyses' routes."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from datasets.analyses import showing
from datasets.analyses.render import analysis_document
from optimize_site.kernel.commands import (
    EXIT_CANCELLED,
    EXIT_DONE,
    EXIT_TIMED_OUT,
    EXIT_WORK_FAILED,
    NounCommand,
    arg,
    duration,
    read_document,
    verb,
)
from optimize_site.kernel.errors import InvalidInput

ROUTE = "/v1/training/datasets/analyses"
OVER = {"done": EXIT_DONE, "failed": EXIT_WORK_FAILED, "cancelled": EXIT_CANCELLED, "unreadable": EXIT_WORK_FAILED}


class AnalysisVerbs(NounCommand):
    """Measures datasets under base models."""

    @verb("analyze", arg("dataset", help="NS/NAME, NS/NAME:vN, or another reference"),
          arg("--model", default="", metavar="BASE_MODEL", help="the base model to measure under"),
          arg("-f", "--file", default="", metavar="FILE", help="a run file: also estimate its steps and time"),
          arg("--wait", action="store_true", help="until the report is there"),
          arg("--timeout", type=duration, default=None, help="with --wait: then exit with 7; the analysis goes on"),
          gives=(analysis_document, "estimates"))
    def analyze(self, dataset: str, model: str, file: str, wait: bool, timeout: float | None) -> int:
        """Measure a dataset's rows under a base model's tokenizer and chat template, without a device."""
        if timeout is not None and not wait:
            raise InvalidInput("--timeout requires --wait.", code="usage")
        body = {"dataset": dataset} | self._asked(model, read_document(file) if file else None)
        found = self.client.post(ROUTE, body)
        status = EXIT_DONE
        if wait and found["status"] not in OVER:
            status = self._await(found["analysisId"], timeout)
            found = self.client.post(ROUTE, body) if status == EXIT_DONE else self.client.get(_address(found))
        elif wait:
            status = OVER[found["status"]]
        self.show(found, text=lambda document: showing.analysis(self, document))
        if found["status"] not in OVER and not wait:
            self.say(f"Read it again with the same command, or follow it with --wait. "
                     f"It is {ROUTE}/{found['analysisId'][:12]} in the API.")
        return status

    @verb("analyses", arg("dataset", help="NS/NAME, or another reference"), arg("--limit", type=int, default=50),
          arg("--offset", type=int, default=0))
    def analyses(self, dataset: str, limit: int, offset: int) -> None:
        """List the analyses of a dataset's examples, newest first."""
        found = self.client.get(ROUTE, dataset=dataset, limit=limit, offset=offset)
        self.show(found, text=lambda document: showing.listed(self, document))

    @verb("cancel", arg("analysis", help="an analysis's ID, or the beginning of one"), gives=(analysis_document,))
    def cancel(self, analysis: str) -> None:
        """Stop an analysis. What it measured so far is used where it is asked for again."""
        self.confirm(f"Cancel the analysis {analysis}?", needs_force=True)
        found = self.client.post(f"{ROUTE}/{quote(analysis, safe='')}/cancel")
        self.show(found, text=lambda document: showing.analysis(self, document))

    def _asked(self, model: str, run: Any) -> dict[str, Any]:
        """The base model and the run's parts. Raises InvalidInput where the file and --model name different ones."""
        if run is None:
            if not model:
                raise InvalidInput("Name a base model with --model, or a run file with -f.", code="usage")
            return {"baseModel": model}
        if not isinstance(run, Mapping):
            raise InvalidInput("The run file does not hold an object.", code="malformed_document")
        stated = str(run.get("baseModel") or "")
        if stated and model and not self._is_same(stated, model):
            raise InvalidInput(f"The run file's baseModel is {stated}, and --model names {model}.",
                               hint="Leave --model out, or change the file.", code="base_model_contradicted")
        parts = {name: run[name] for name in ("config", "execution") if run.get(name) is not None}
        return {"baseModel": model or stated, "config": {}} | parts

    def _is_same(self, stated: str, model: str) -> bool:
        """Whether both name one base model: by repository, ID or registry reference."""
        if stated.lower() == model.lower():
            return True
        found = [self.client.get(f"/v1/training/base-models/{quote(name, safe='')}") for name in (stated, model)]
        return bool(found[0]["repository"] == found[1]["repository"])

    def _await(self, analysis: str, timeout: float | None) -> int:
        found, is_late = self.watch(f"{ROUTE}/{analysis}", timeout=timeout, is_over=lambda one: one["status"] in OVER,
                                    each=lambda one: self.say(showing.status_words(one)))
        if is_late:
            self.say(f"The analysis {analysis[:12]} goes on.")
            return EXIT_TIMED_OUT
        return OVER[found["status"]]


def _address(found: Mapping[str, Any]) -> str:
    return f"{ROUTE}/{found['analysisId']}"
