"""The dry run: everything a submission would be told, without a device and without a row."""

from typing import Any

from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import Problem
from runs.descriptor import parse_descriptor
from runs.evidence import estimates_for
from runs.facts import Facts
from runs.findings import findings_for
from runs.lookups import facts_for
from runs.operations.judge_room import room_problems
from runs.operations.length_check import measure
from runs.operations.sampler_room import sampler_problems
from runs.queries import previous_runs
from runs.resolve import Resolved, resolve


def check_run(document: Any, *, actor: Actor) -> dict[str, Any]:
    """Validate a descriptor; gives the dry-run document. Claims nothing, writes nothing."""
    actor.require("viewer")
    parsed = parse_descriptor(document)
    facts = facts_for(parsed.descriptor)
    resolved = resolve(parsed, facts)
    refused, lengths = measure(resolved, facts)
    refused = [*refused, *room_problems(resolved), *sampler_problems(resolved, facts)]
    return {
        "valid": resolved.is_valid and not refused,
        "problems": [problem_document(problem) for problem in (*resolved.problems, *refused)],
        "warnings": list(resolved.warnings),
        "configHash": resolved.config_hash if resolved.is_valid else None,
        "resolved": {"config": resolved.config, "execution": resolved.execution, "totalSteps": resolved.total_steps,
                     "lengths": lengths, "smoke": resolved.smoke},
        "references": resolved.references,
        "stated": list(resolved.stated),
        "estimates": estimates_for(resolved, facts),
        "diagnostics": findings_for(facts),
        "previousRuns": _previous(resolved, facts),
    }


def problem_document(problem: Problem) -> dict[str, str]:
    """A problem as every surface shows it."""
    return {"path": problem.path, "code": problem.code, "message": problem.message, "hint": problem.hint}


def _previous(resolved: Resolved, facts: Facts) -> list[dict[str, Any]]:
    if not resolved.is_valid or facts.base_model is None:
        return []
    return previous_runs(resolved.config_hash, facts.base_model.entry.repository)
