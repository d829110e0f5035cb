"""What a dry run notices about the data that a descriptor names, looked up: the rows themselves, and leaks."""

from typing import Any

from datasets.analyses.queries import find_analysis, status_of
from datasets.errors import RowsGone
from datasets.overlaps import COMPARABLE, compare_quickly
from datasets.queries import example_set
from datasets.stored_rows import sampled_rows
from optimize_site.kernel.conf import setting
from registry.base_model_queries import base_model_state
from registry.models import Version, Workload
from runs.analysed import analysed, not_analysed
from runs.diagnostics import diagnose
from runs.facts import BaseModelFacts, DatasetFacts, Facts
from runs.measurements import command_of


def findings_for(facts: Facts) -> dict[str, Any] | None:
    """Findings about the training dataset; None where there is none, its rows are tokens, or its files are not here."""
    if facts.dataset is None or facts.dataset.format not in COMPARABLE:
        return None
    training = Version.objects.select_related("artifact").get(pk=facts.dataset.version_id)
    rows = sampled_rows(example_set(training), setting("trainer.dry-run.max-examples"),
                        setting("trainer.dry-run.max-bytes"))
    try:
        found = diagnose(((row.position, row.data) for row in rows), num_examples=facts.dataset.num_examples)
        return found | {"leakage": _leaks(training, facts), "analysis": _analysed(facts.dataset, facts.base_model)}
    except RowsGone:
        return None


def _analysed(dataset: DatasetFacts, base_model: BaseModelFacts | None) -> dict[str, Any] | None:
    """What the analysis of the training rows under the run's base model found; None without a base model."""
    state = base_model_state(base_model.entry.repository) if base_model is not None else None
    if state is None:
        return None
    analysis = find_analysis(dataset.content_hash, state) if state.revision else None
    status = status_of(analysis) if analysis is not None else "no_analysis" if state.revision else "no_commit"
    if analysis is None or status != "done":
        command = command_of(dataset.reference, state.repository) if status == "no_analysis" else None
        return not_analysed(status, state.repository, command)
    return analysed(analysis.report, analysis_id=analysis.pk, base_model=state.repository,
                    num_examples=dataset.num_examples)


def _leaks(training: Version, facts: Facts) -> list[dict[str, Any]]:
    """How the training rows overlap the rows of the workload's evaluation dataset and the validation dataset."""
    compared: dict[str, dict[str, Any]] = {}
    for role, judged in _judged(facts):
        if judged.content_hash in compared:
            compared[judged.content_hash]["as"].append(role)
        elif (found := compare_quickly(training, judged)) is not None:
            compared[judged.content_hash] = {"as": [role], **found}
    return list(compared.values())


def _judged(facts: Facts) -> list[tuple[str, Version]]:
    """The datasets that judge, each with what it is to the run."""
    found = []
    if facts.workload is not None:
        workload = Workload.objects.select_related("evaluation_dataset__artifact").get(pk=facts.workload.id)
        found.append(("evaluation", workload.evaluation_dataset))
    if facts.validation is not None:
        validation = Version.objects.select_related("artifact").get(pk=facts.validation.version_id)
        found.append(("validation", validation))
    return [(role, version) for role, version in found if version is not None]
