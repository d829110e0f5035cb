"""A pipeline's descriptor: what a person may write. Each train stage holds the fields of a run's own descriptor."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimize_site.kernel.errors import Problem
from optimize_site.kernel.notes import MAX_NOTE
from runs.wording import describe_kind

TRAIN, EVALUATE = "train", "evaluate"
LATER = ("curate", "distill")
MOST_STAGES = 50
NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")
TEXTS = ("workload", "project", "submissionId", "description")
MOST = {"submissionId": 128, "description": MAX_NOTE}
FIELDS = frozenset({"kind", "workload", "project", "stages", "submissionId", "description"})
RUN_FIELDS = frozenset({"baseModel", "config", "execution", "grader", "graderInstructions", "warmStartModelId",
                        "description", "configName"})
EVALUATE_TEXTS = ("model", "dataset", "grader", "graderInstructions", "description")
EVALUATE_FIELDS = frozenset({*EVALUATE_TEXTS, "maxCompletionTokens", "minMeanScore"})


@dataclass(frozen=True)
class StageWish:
    """One stage as it was written: its name, type and fields."""

    position: int
    name: str
    type: str
    fields: dict[str, Any]

    @property
    def path(self) -> str:
        return f"stages[{self.position}]"


@dataclass(frozen=True)
class PipelineWish:
    """A pipeline as it was written, as far as it could be read, and what is wrong with its form."""

    workload: str = ""
    stages: tuple[StageWish, ...] = ()
    submission_id: str = ""
    description: str = ""
    problems: tuple[Problem, ...] = field(default_factory=tuple)


def parse_pipeline(document: Any) -> PipelineWish:
    """Read a descriptor; every problem of its form stands in `problems`."""
    if not isinstance(document, Mapping):
        return PipelineWish(problems=(Problem("", "not_an_object", "A pipeline is an object with kind and stages."),))
    problems = list(_whole_problems(document))
    stages: list[StageWish] = []
    found = document.get("stages")
    for position, body in enumerate(found if isinstance(found, list) else []):
        stage = _stage(position, body, problems)
        if stage is not None:
            problems += _reference_problems(stage, stages)
            stages.append(stage)
    return PipelineWish(_text(document, "workload") or _text(document, "project"), tuple(stages),
                        _text(document, "submissionId"), _text(document, "description"), tuple(problems))


def references_of(stage: StageWish) -> dict[str, str]:
    """The fields of a stage that name an earlier stage: path below the stage to the stage's name."""
    config = stage.fields.get("config")
    places = {"model": stage.fields.get("model"), "warmStartModelId": stage.fields.get("warmStartModelId"),
              "config.dataset": config.get("dataset") if isinstance(config, Mapping) else None,
              "dataset": stage.fields.get("dataset"), "grader": stage.fields.get("grader")}
    texts = {path: value.removeprefix("model:") if path == "grader" else value for path, value in places.items()
             if isinstance(value, str)}
    return {path: value.removeprefix("@") for path, value in texts.items() if value.startswith("@")}


def _whole_problems(document: Mapping[str, Any]) -> Iterator[Problem]:
    for name in sorted(set(document) - FIELDS, key=str):
        yield Problem(str(name), "unknown_field", f"A pipeline has no field {name}.",
                      f"Its fields are {', '.join(sorted(FIELDS))}.")
    if document.get("kind") != "pipeline":
        yield Problem("kind", "wrong_kind", f"kind is {document.get('kind')!r}; it must be pipeline.")
    if not (document.get("workload") or document.get("project")):
        yield Problem("workload", "required", "workload is missing.", "Name the workload the pipeline is for.")
    yield from text_problems(document, TEXTS)
    stages = document.get("stages")
    if not isinstance(stages, list) or not stages:
        yield Problem("stages", "required", "stages is missing; a pipeline has at least one.")
    elif len(stages) > MOST_STAGES:
        yield Problem("stages", "too_many_stages", f"There are {len(stages)} stages; a pipeline has at most "
                      f"{MOST_STAGES}.")


def text_problems(fields: Mapping[str, Any], names: Iterable[str]) -> Iterator[Problem]:
    """The fields that are to be texts and are none, or too long: a number that YAML read is not what was written."""
    for name in names:
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            yield Problem(name, "wrong_kind", f"{name} is {describe_kind(value)}; it must be a text.",
                          "Put it in quotes.")
        elif value and len(value) > MOST.get(name, len(value)):
            yield Problem(name, "wrong_length", f"{name} has {len(value)} characters; it may have at most "
                          f"{MOST[name]}.")


def _stage(position: int, body: Any, problems: list[Problem]) -> StageWish | None:
    path = f"stages[{position}]"
    if not isinstance(body, Mapping):
        problems.append(Problem(path, "not_an_object", "A stage is an object with a name and a type."))
        return None
    name, kind = body.get("name"), body.get("type")
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        problems.append(Problem(f"{path}.name", "stage_name_invalid", f"name is {name!r}; a stage's name is lowercase "
                                "letters and digits, with . _ - between."))
        name = f"stage-{position}"
    if kind not in (TRAIN, EVALUATE):
        problems.append(_wrong_type(path, kind))
        return None
    known = RUN_FIELDS if kind == TRAIN else EVALUATE_FIELDS
    fields = {key: value for key, value in body.items() if key not in {"name", "type"}}
    problems += [Problem(f"{path}.{key}", "unknown_field", f"A stage of type {kind} has no field {key}.",
                         f"Its fields are {', '.join(sorted(known))}.") for key in fields if key not in known]
    return StageWish(position, name, kind, {key: value for key, value in fields.items() if key in known})


def _wrong_type(path: str, kind: Any) -> Problem:
    if kind in LATER:
        return Problem(f"{path}.type", "stage_type_not_available", f"A stage of type {kind} cannot run in this "
                       "version; train and evaluate can.")
    return Problem(f"{path}.type", "stage_type_unknown", f"type is {kind!r}; it must be train or evaluate.")


def _reference_problems(stage: StageWish, earlier: list[StageWish]) -> Iterator[Problem]:
    by_name = {other.name: other for other in earlier}
    if stage.name in by_name:
        yield Problem(f"{stage.path}.name", "stage_name_taken", f"Two stages are called {stage.name}.")
    for path, name in references_of(stage).items():
        where = f"{stage.path}.{path}"
        if name not in by_name:
            known = ", ".join(f"@{other}" for other in by_name) or "none"
            yield Problem(where, "stage_unknown", f"{path} names @{name}, and no earlier stage is called so.",
                          f"Earlier stages: {known}.")
        elif path in {"config.dataset", "dataset"}:
            yield Problem(where, "stage_gives_no_dataset", f"{path} names @{name}, which is a {by_name[name].type} "
                          "stage and gives no dataset.", "Name a registered dataset.")
        elif by_name[name].type != TRAIN:
            yield Problem(where, "stage_gives_no_model", f"{path} names @{name}, which is a {by_name[name].type} stage "
                          "and gives no model.", "Name a train stage.")


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    return value.strip() if isinstance(value, str) else ""
