"""The dry run: everything a submission would be told, without a device and without a row."""

from typing import Any

from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import Problem
from runs.descriptor import parse_descriptor
from runs.evidence import estimates_for
from runs.facts import Facts
from runs.findings import findings_for
from runs.lookups import facts_for
from runs.queries import previous_runs
from runs.resolve import Resolved, resolve

NO_ANALYSIS = {"status": "no_analysis", "note": "Lengths are measured when the job reads the rows, before it trains."}


def check_run(document: Any, *, actor: Actor) -> dict[str, Any]:
    """Validate a descriptor; gives the dry-run document. Claims nothing, writes nothing."""
    actor.require("viewer")
    parsed = parse_descriptor(document)
    facts = facts_for(parsed.descriptor)
    resolved = resolve(parsed, facts)
    return {
        "valid": resolved.is_valid,
        "problems": [problem_document(problem) for problem in resolved.problems],
        "warnings": list(resolved.warnings),
        "configHash": resolved.config_hash if resolved.is_valid else None,
        "resolved": resolved_document(resolved),
        "references": resolved.references,
        "stated": list(resolved.stated),
        "estimates": estimates_for(resolved, facts),
        "diagnostics": findings_for(facts),
        "previousRuns": _previous(resolved, facts),
    }


def problem_document(problem: Problem) -> dict[str, str]:
    """A problem as every surface shows it."""
    return {"path": problem.path, "code": problem.code, "message": problem.message, "hint": problem.hint}


def resolved_document(resolved: Resolved) -> dict[str, Any]:
    """What would train, and what is known of its rows' lengths."""
    return {"config": resolved.config, "execution": resolved.execution, "totalSteps": resolved.total_steps,
            "lengths": {"maxSeqLength": resolved.config["maxSeqLength"], "training": NO_ANALYSIS,
                        "validation": NO_ANALYSIS if resolved.references["validationDataset"] else None}}


def _previous(resolved: Resolved, facts: Facts) -> list[dict[str, Any]]:
    if not resolved.is_valid or facts.base_model is None:
        return []
    return previous_runs(resolved.config_hash, facts.base_model.entry.repository)
