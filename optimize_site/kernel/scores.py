"""The scores of models, for apps below evaluations: runs reads them, evaluations provides them when it is ready."""

from collections.abc import Iterable
from typing import Any, Protocol


class ScoreSource(Protocol):
    """Who knows how models scored."""

    def best_scores_of_models(self, version_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """For each model that was evaluated on its workload's present dataset and grader: its newest such evaluation
        as `{"evaluationId", "meanScore", "exactMatchRate", "interval", "dataset", "grader"}`."""

    def all_scores_of_models(self, version_ids: Iterable[str]) -> list[dict[str, Any]]:
        """The newest score of each of these models under every dataset, grader and text of instructions that it was
        evaluated under: the same keys, and `{"modelId", "contentHash", "graderInstructions", "gradedBy"}`, of which the
        last names a judge by its version."""


class NoScores:
    """Nothing was ever evaluated."""

    def best_scores_of_models(self, version_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        return {}

    def all_scores_of_models(self, version_ids: Iterable[str]) -> list[dict[str, Any]]:
        return []


_source: ScoreSource = NoScores()


def provide(source: ScoreSource) -> None:
    """Called once by the app that keeps evaluations."""
    global _source
    _source = source


def best_scores_of_models(version_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The newest score of each of these models that has one."""
    return _source.best_scores_of_models(list(version_ids))


def all_scores_of_models(version_ids: Iterable[str]) -> list[dict[str, Any]]:
    """The newest scores of these models, whatever they were evaluated on and by."""
    return _source.all_scores_of_models(list(version_ids))
