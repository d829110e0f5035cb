"""Looks up what a reward names: the one text of its graders, its bundles, and the models that judge."""

from dataclasses import replace
from functools import partial

from optimize_site.kernel.errors import Problem
from optimize_site.kernel.graders import available_grader
from optimize_site.kernel.judges import Appointment, keeper
from registry.queries import resolve_version
from runs.descriptor import RewardTerm, RunDescriptor
from runs.facts import BundleFacts, Facts
from runs.looking_up import tried
from runs.reward import FUNCTION, grader_text, instructions_of, target_of, terms_of


def find_scorers(problems: list[Problem], descriptor: RunDescriptor, facts: Facts, namespace: str) -> Facts:
    """The facts with what each term of the reward names; what cannot be found becomes a problem of its field."""
    search = _Search(problems, descriptor, facts, namespace)
    for number, term in enumerate(terms_of(descriptor)):
        search.look(f"config.reward.terms[{number}]", term)
    return replace(facts, graders=search.graders, bundles=search.bundles, judges=search.judges)


class _Search:
    """One descriptor's reward, term by term."""

    def __init__(self, problems: list[Problem], descriptor: RunDescriptor, facts: Facts, namespace: str):
        self.problems, self.descriptor, self.facts, self.namespace = problems, descriptor, facts, namespace
        self.graders: dict[str, str] = {}
        self.bundles: dict[str, BundleFacts] = {}
        self.judges: dict[tuple[str, str, str], Appointment] = {}

    def look(self, path: str, term: RewardTerm) -> None:
        if term.kind == "rule" and term.bundle:
            self._bundle(f"{path}.bundle", term.bundle)
            self._function(f"{path}.module", term)
        elif term.kind == "model" and term.model:
            self._judge(f"{path}.model", term.model, term)
        elif term.kind == "grader":
            self._grader(f"{path}.grader" if term.grader else "grader", term)

    def _grader(self, path: str, term: RewardTerm) -> None:
        stated = grader_text(term, self.descriptor, self.facts)
        grader = tried(self.problems, path, partial(available_grader, stated, namespace=self.namespace))
        if grader is None:
            return
        self.graders[stated] = grader
        target = target_of(grader)
        if target is not None and target.kind == "bundle":
            self._bundle(path, target.target)
        elif target is not None and target.kind == "model":
            self._judge(path, target.target, term)

    def _bundle(self, path: str, named: str) -> None:
        version = tried(self.problems, path, partial(resolve_version, "bundle", named, namespace=self.namespace))
        if version is not None:
            self.bundles[named] = BundleFacts(named, version.reference, version.pk, version.content_hash)

    def _function(self, path: str, term: RewardTerm) -> None:
        """What a rule names can score: the function is there, and this machine gives it a sandbox."""
        bundle = self.bundles.get(term.bundle or "")
        if bundle is not None and term.module:
            grader = f"bundle:{bundle.reference}#{term.module}:{term.function or FUNCTION}"
            tried(self.problems, path, partial(available_grader, grader))

    def _judge(self, path: str, named: str, term: RewardTerm) -> None:
        known = replace(self.facts, graders=self.graders)
        told, of_workload = instructions_of(term, self.descriptor, known)
        dataset = self.facts.dataset.version_id if self.facts.dataset else ""
        judge = tried(self.problems, path, partial(keeper().appoint, named, instructions=told, dataset_id=dataset,
                                                   namespace=self.namespace, of_workload=of_workload))
        if judge is not None:
            self.judges[named, told, of_workload] = judge
