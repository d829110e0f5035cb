"""How an evaluation's answers are scored by a grader that is no rule: the scorer process, and what it is told."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from datasets.lines import Line
from datasets.queries import example_set, lines_of
from datasets.row_documents import OWN_KEYS
from datasets.rows import FORMAT as CHAT
from evaluations.calls import calls_in
from evaluations.graders import Verdict
from evaluations.judging import judge_term
from evaluations.models import Evaluation, Prediction
from evaluations.rules import is_rule
from evaluations.scoring.protocol import item_document
from evaluations.scoring.terms import Item
from optimize_site.kernel.blobs import blob_path
from optimize_site.kernel.graders import Target, parse_target
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.scoring import scorer_start, scoring_limits
from optimize_site.kernel.work import attempt_folder
from registry.queries import resolve_version

TERM = "grader"
Body = Callable[[str, Target], dict[str, Any]]
"""Takes a grader's text and what it names; gives what its term holds beside its name."""


def scores_as_answered(grader: str) -> bool:
    """Whether the grader scores an answer at once, as it comes; any other is asked when all are there."""
    return is_rule(grader)


def _service(text: str, target: Target) -> dict[str, Any]:
    return {"grader": text}


def _bundle(text: str, target: Target) -> dict[str, Any]:
    """The bundle's bytes under their hash, and the function in them."""
    version = resolve_version("bundle", target.target)
    return {"bundle": {"archive": str(blob_path(version.content_hash)), "sha256": version.content_hash,
                       "module": target.module, "function": target.function}}


BODIES: Mapping[str, Body] = {"http": _service, "bundle": _bundle}


def term_of(grader: str) -> dict[str, Any]:
    """The one term of a spec that scores as the grader does."""
    target = parse_target(grader)
    body = {"grader": grader} if target is None else BODIES[target.kind](grader, target)
    return _term(body)


def _term(body: dict[str, Any]) -> dict[str, Any]:
    return {"name": TERM, "weight": 1.0, "kind": "grader"} | body


def scorer_of(term: dict[str, Any], scratch: Path, *, seconds: float = math.inf) -> dict[str, Any]:
    """How the process that scores by one term is started, and the first line it reads. `seconds` is the most that one
    answer may take, where that is less than the operator allows."""
    scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
    limits = scoring_limits()
    limits["seconds"] = min(limits["seconds"], seconds)
    spec = {"terms": [term], "onFailure": "exclude", "limits": limits, "scratch": str(scratch)}
    return scorer_start(spec)


def scoring_plan(row: Evaluation, attempt: Attempt) -> dict[str, Any]:
    """What the job is to have scored: the answers that the grader did not judge yet, in a file of the attempt."""
    folder = attempt_folder(attempt.pk)
    file = folder / "items.jsonl"
    with file.open("w", encoding="utf-8") as out:
        lines = _numbered_lines(row)
        for prediction in row.predictions.unjudged().order_by("position").iterator():
            columns = next((columns_of(line) for number, line in lines if number == prediction.position), {})
            out.write(json.dumps(item_document(_item(prediction, columns))) + "\n")
    term = term_of(row.grader) if row.judge_id is None else _term(judge_term(row))
    return {"entry": "score", "scorer": scorer_of(term, folder / "scoring"), "items": str(file)}


def _item(row: Prediction, columns: dict[str, Any]) -> Item:
    """An answer as scorers are given it, with the tools that it calls where its prompt offered some."""
    tools = row.prompt.get("tools")
    return Item(row.position, row.prompt.get("messages", []), row.answer, row.expected, tools,
                calls_in(row.answer, tools), columns)


def _numbered_lines(row: Evaluation) -> Iterator[tuple[int, Line]]:
    """The dataset's rows by their positions, for a grader that may ask what else they hold; else none."""
    target = parse_target(row.grader)
    is_bundle = target is not None and target.kind == "bundle"
    return enumerate(lines_of(example_set(row.dataset)) if is_bundle else ())


def columns_of(line: Line) -> dict[str, Any]:
    """What a row holds beside its messages and tools."""
    return {name: value for name, value in json.loads(line.data).items() if name not in OWN_KEYS[CHAT]}


def read_scored(event: Mapping[str, Any]) -> Verdict:
    """The verdict that a job tells of."""
    return Verdict(event["score"], event["is_exact"], event["fields"], event["explanation"], event["cause"])
