"""Analyzing a dataset for a run: the analysis, and what the run would take over these rows once it is done."""

from dataclasses import dataclass
from typing import Any

from datasets.analyses.operations import refuse_unmeasured, start_analysis
from datasets.analyses.queries import status_of
from datasets.models import Analysis, ExampleSet
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import InvalidInput
from registry.base_model_queries import BaseModelState, get_base_model
from registry.models import Artifact, Version
from registry.queries import resolve_version
from runs.descriptor import parse_descriptor
from runs.errors import RunRefused
from runs.evidence import estimates_for
from runs.facts import Facts
from runs.lookups import facts_for
from runs.resolve import Resolved, resolve

GIVEN = frozenset({"config", "execution", "training", "lora", "optimizer", "scheduler"})
"""Where the paths of problems begin that lie in the parts that were given; a workload, for instance, is not one."""


@dataclass(frozen=True)
class Request:
    """What is asked: a dataset, a base model, and the parts of a run descriptor that estimates follow from."""

    dataset: str
    base_model: str
    config: dict[str, Any] | None = None
    execution: dict[str, Any] | None = None

    @property
    def is_for_a_run(self) -> bool:
        return self.config is not None or self.execution is not None


@dataclass(frozen=True)
class Analyzed:
    """An analysis, whether asking for it started it, and the estimates where a run was given and it is done."""

    analysis: Analysis
    is_new: bool
    estimates: dict[str, Any] | None = None


def analyze_dataset(request: Request, *, actor: Actor) -> Analyzed:
    """Start an analysis or read the one that is kept; with a run's parts, estimate the run once it is done.

    Raises UnknownVersion, NotFound, NotAnalysable, BaseModelUnusable, RunRefused where the run's parts are wrong.
    """
    actor.require("viewer")
    if not request.base_model:
        raise InvalidInput("Name the base model to measure under.", code="base_model_missing",
                           hint="Pass --model, or -f with a run file that has a baseModel.")
    version = resolve_version(Artifact.Kind.DATASET, request.dataset)
    examples, state = ExampleSet.objects.get(pk=version.content_hash), get_base_model(request.base_model)
    refuse_unmeasured(examples)
    run = _run_over(version, state, request) if request.is_for_a_run else None
    started = start_analysis(examples, state, actor=actor)
    is_done = status_of(started.analysis) == "done"
    return Analyzed(started.analysis, started.is_new, estimates_for(*run) if run is not None and is_done else None)


def _run_over(version: Version, state: BaseModelState, request: Request) -> tuple[Resolved, Facts]:
    """The run of the given parts over this dataset. Raises RunRefused with what is wrong in them."""
    document: dict[str, Any] = {"kind": "run", "baseModel": state.repository,
                                "config": (request.config or {}) | {"dataset": version.reference}}
    if request.execution is not None:
        document["execution"] = request.execution
    parsed = parse_descriptor(document)
    facts = facts_for(parsed.descriptor)
    resolved = resolve(parsed, facts)
    wrong = [problem for problem in resolved.problems if problem.path.split(".")[0] in GIVEN]
    if wrong:
        raise RunRefused.because(wrong)
    return resolved, facts
