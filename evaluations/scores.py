"""The scores of a workload's models: by base model and configuration, and for apps that list models."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from evaluations import phases
from evaluations.judging import told_by
from evaluations.models import Evaluation
from evaluations.queries import newest_by_model
from optimize_site.kernel.graders import available_grader, check_instructions
from registry.model_queries import list_model_versions, serving_of
from registry.models import Version, Workload
from runs.models import Run


def score_document(evaluation: Evaluation) -> dict[str, Any]:
    """What a table shows of one evaluation."""
    report = evaluation.report or {}
    return {"evaluationId": evaluation.pk, "modelId": evaluation.model_id, "meanScore": evaluation.mean_score,
            "exactMatchRate": report.get("exactMatchRate"), "interval": report.get("interval"),
            "unscored": evaluation.num_unscored, "rows": evaluation.num_rows,
            "dataset": evaluation.dataset.reference, "grader": evaluation.grader,
            "graderInstructions": evaluation.grader_instructions or None, "at": evaluation.ended_at}


class Scores:
    """What apps below evaluations may ask."""

    def best_scores_of_models(self, version_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """For each model its newest evaluation on the present dataset and grader of its workload."""
        found: dict[str, dict[str, Any]] = {}
        told = cache(told_by)
        wanted = list(version_ids)
        rows = Evaluation.objects.filter(model__in=wanted, phase=phases.COMPLETED).select_related(
            "workload__evaluation_dataset", "dataset__artifact").order_by("ended_at")
        for row in rows:
            current, model = row.workload.evaluation_dataset, row.model_id
            if model is None or current is None:
                continue
            if (row.content_hash, row.grader) == (current.content_hash, row.workload.grader) and \
                    row.grader_instructions == told(row.grader, current, row.workload):
                found[model] = score_document(row)
        return found

    def all_scores_of_models(self, version_ids: Iterable[str]) -> list[dict[str, Any]]:
        """For each model its newest evaluation under every dataset, grader and text of instructions."""
        told = ("model", "content_hash", "grader", "grader_instructions")
        rows = Evaluation.objects.filter(model__in=list(version_ids), phase=phases.COMPLETED).select_related(
            "dataset__artifact", "judge__artifact").order_by(*told, "-ended_at").distinct(*told)
        return [score_document(row) | {"contentHash": row.content_hash, "gradedBy": _graded_by(row)} for row in rows]


def _graded_by(evaluation: Evaluation) -> str:
    return f"model:{evaluation.judge.reference}" if evaluation.judge is not None else evaluation.grader


@dataclass
class Configuration:
    """One training configuration and the scores of its runs."""

    config_hash: str
    name: str = ""
    runs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def document(self) -> dict[str, Any]:
        scores = [run["meanScore"] for run in self.runs if run["meanScore"] is not None]
        return {"configHash": self.config_hash or None, "configName": self.name or None,
                "best": max(scores, default=None), "runs": self.runs}


def scores_table(workload: Workload, *, dataset: Version | None = None, grader: str = "",
                 instructions: str = "") -> dict[str, Any]:
    """A table a base model revision: the baseline's score, and one entry a configuration with its runs' scores.

    Only evaluations on one dataset by one grader stand in it: the workload's present ones unless others are named; of
    a grader that is a model, only those under one text of instructions, the workload's unless stated. A
    configuration is called by the newest name that was given to it. Raises MalformedGrader, GraderNotAvailable,
    InstructionsDoNotApply, InstructionsTooLong.
    """
    chosen = dataset or workload.evaluation_dataset
    scorer = available_grader(grader, namespace=workload.namespace_id) if grader else workload.grader
    told = check_instructions(scorer, instructions) or (told_by(scorer, chosen, workload) if chosen else None)
    document: dict[str, Any] = {"workload": workload.name, "dataset": chosen.reference if chosen else None,
                                "grader": scorer or None, "graderInstructions": told or None, "tables": []}
    if chosen is None or told is None:
        return document
    asked = Evaluation.objects.filter(workload=workload, content_hash=chosen.content_hash, grader=scorer)
    newest = newest_by_model(asked.values_list("model", flat=True), chosen.content_hash, scorer, told)
    models = {version.pk: version for version in list_model_versions().filter(pk__in=newest)}
    runs = _runs(models.values())
    groups: dict[tuple[str, str], list[str]] = {}
    for pk, evaluation in newest.items():
        groups.setdefault((evaluation.base_model, evaluation.base_revision), []).append(pk)
    document["tables"] = [_table(base, [(models[pk], newest[pk]) for pk in pks], runs)
                          for base, pks in sorted(groups.items())]
    return document


def _runs(models: Iterable[Version]) -> dict[str, Run]:
    ids = {model.pk: model.produced_by_id.partition("#")[0] for model in models if model.produced_by_kind == "run"}
    runs = Run.objects.in_bulk(list(set(ids.values())))
    return {model: runs[run] for model, run in ids.items() if run in runs}


def _table(base: tuple[str, str], scored: list[tuple[Version, Evaluation]], runs: dict[str, Run]) -> dict[str, Any]:
    baseline: dict[str, Any] | None = None
    configurations: dict[str, Configuration] = {}
    for model, evaluation in sorted(scored, key=lambda pair: pair[0].created_at):
        shown = score_document(evaluation) | {"model": model.reference}
        if serving_of(model).is_base:
            baseline = shown
            continue
        run = runs.get(model.pk)
        key = run.config_hash if run is not None else str(model.lineage.get("configHash") or "")
        entry = configurations.setdefault(key, Configuration(key))
        entry.runs.append(shown | {"runId": run.pk if run is not None else None})
    for entry in configurations.values():
        entry.name = _newest_name(entry.config_hash)
    ordered = sorted((entry.document for entry in configurations.values()), key=lambda doc: -(doc["best"] or 0.0))
    return {"baseModel": base[0], "baseRevision": base[1], "baseline": baseline, "configurations": ordered}


def _newest_name(config_hash: str) -> str:
    named = Run.objects.filter(config_hash=config_hash).exclude(config_name="").order_by("-created_at")
    return named.values_list("config_name", flat=True).first() or "" if config_hash else ""
