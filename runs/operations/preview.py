"""The first rows of a run as tokens: those it trains marked, the two answers of a pair, or the prompts it rolls out."""

from collections.abc import Mapping
from typing import Any

from datasets.plan import dataset_part
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import InvalidInput, Refused
from optimize_site.kernel.plan_parts import base_model_part
from optimize_site.kernel.short_jobs import run_short_job
from registry.base_model_queries import base_model_state
from runs.descriptor import parse_descriptor
from runs.errors import RunRefused
from runs.lookups import facts_for
from runs.models import Run
from runs.queries import examples_of
from runs.resolve import resolve

ROWS, MOST_ROWS = 3, 20


def preview_descriptor(document: Any, *, rows: int = ROWS, actor: Actor) -> dict[str, Any]:
    """A descriptor's first rows. Raises RunRefused as submitting it would, Refused for what cannot be shown."""
    actor.require("viewer")
    _check_rows(rows)
    parsed = parse_descriptor(document)
    resolved = resolve(parsed, facts_for(parsed.descriptor))
    if resolved.problems:
        raise RunRefused.because(resolved.problems)
    return _preview(resolved.config, resolved.references, rows)


def preview_run(run: Run, *, rows: int = ROWS, actor: Actor) -> dict[str, Any]:
    """A submitted run's first rows, under its own configuration and base model."""
    actor.require("viewer")
    _check_rows(rows)
    return _preview(run.config, run.references, rows)


def _check_rows(rows: int) -> None:
    if not 1 <= rows <= MOST_ROWS:
        raise InvalidInput(f"rows is {rows}; a preview shows 1 to {MOST_ROWS} rows.", hint=f"Ask for {MOST_ROWS} at "
                           "most.")


def _preview(config: Mapping[str, Any], references: Mapping[str, Any], rows: int) -> dict[str, Any]:
    dataset = references["dataset"]
    part = dataset_part(examples_of(dataset), name=dataset["reference"])
    base = _base_model(references["baseModel"])
    plan = {"entry": "preview", "base_model": base, "dataset": part, "config": dict(config), "rows": rows}
    shown: dict[str, Any] = run_short_job(plan, kind="preview")["preview"]
    return {"dataset": dataset["reference"], "baseModel": base["repository"], "baseModelRevision": base["revision"],
            "exampleCount": dataset["numExamples"]} | shown


def _base_model(reference: Mapping[str, Any]) -> dict[str, Any]:
    repository, revision = reference["repository"], reference.get("revision")
    state = base_model_state(repository)
    if state is None or not state.is_ready or state.folder is None:
        raise Refused(f"{repository} is not prepared yet, and rows become tokens under its tokenizer.",
                      code="base_model_not_ready", hint=f"Wait for it: `./optimize base-models get {repository}`.")
    if revision and revision != state.revision:
        raise Refused(f"The run is over {repository} at {revision}, and the box now holds {state.revision}.",
                      code="base_model_moved", hint="Preview its descriptor instead.")
    return base_model_part(folder=str(state.folder), revision=state.revision, repository=repository,
                           chat_template_sha256=state.chat_template_sha256,
                           rules=state.entry.rules if state.entry else ())
