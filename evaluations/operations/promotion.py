"""Promotion: moving a workload's champion on the evidence of an evaluation."""

from typing import Any

from django.db import transaction

from evaluations.comparison import paired, paired_document
from evaluations.errors import NoEvidence, NotBetter, NoteRequired
from evaluations.models import Evaluation
from evaluations.queries import speaking_for
from evaluations.scores import score_document
from optimize_site.kernel import doorbell
from optimize_site.kernel.auth import Actor
from registry.model_queries import base_version_of
from registry.models import Alias, Version, Workload, WorkloadReference
from registry.operations.artifacts import drop_alias, place_alias
from registry.operations.workloads import move_reference, refuse_archived_workload

CHAMPION = WorkloadReference.Name.CHAMPION.value


@transaction.atomic
def promote(workload: Workload, version: Version, *, actor: Actor, note: str = "",
            force: bool = False) -> WorkloadReference:
    """Make a model the workload's champion, with who, when and the evidence; the registry's alias follows.

    The evidence is an evaluation on the workload's present dataset and grader that beats the champion's. `force` goes
    ahead without, for a reason given in `note`: that is how one goes back to an earlier champion. Promoting the
    champion again changes nothing. Raises NoEvidence, NotBetter, NoteRequired, WorkloadArchived.
    """
    actor.require("operator")
    workload = Workload.objects.select_for_update().get(pk=workload.pk)
    current = workload.references.select_related("version__artifact").filter(name=CHAMPION).first()
    if current is not None and current.version_id == version.pk:
        return current
    refuse_archived_workload(workload)
    if force and not note.strip():
        raise NoteRequired("A promotion without the evidence needs a reason.", hint="Pass --note TEXT with it.")
    evidence = gather_evidence(workload, version, current)
    if not force:
        _check(workload, version, evidence)
    reference = move_reference(workload, CHAMPION, version, actor=actor, note=note,
                               evidence=evidence | {"forced": force, "note": note})
    _move_alias(workload, version, actor)
    doorbell.ring_control()
    return reference


def gather_evidence(workload: Workload, version: Version, current: WorkloadReference | None) -> dict[str, Any]:
    """What the evaluations say: the model's score, its base model's, the champion's, and the paired difference."""
    own = speaking_for(version, workload)
    base_version = base_version_of(version)
    base = speaking_for(base_version, workload) if base_version is not None else None
    champion = speaking_for(current.version, workload) if current is not None else None
    return {"evaluation": _shown(own), "base": _shown(base), "champion": _shown(champion),
            "againstBase": _difference(base, own), "againstChampion": _difference(champion, own)}


def _shown(evaluation: Evaluation | None) -> dict[str, Any] | None:
    if evaluation is None:
        return None
    shown = score_document(evaluation)
    return shown | {"model": evaluation.model_name, "at": shown["at"].isoformat()}


def _difference(before: Evaluation | None, after: Evaluation | None) -> dict[str, Any] | None:
    return None if before is None or after is None or before.pk == after.pk else paired_document(paired(before, after))


def _check(workload: Workload, version: Version, evidence: dict[str, Any]) -> None:
    own, champion = evidence["evaluation"], evidence["champion"]
    if own is None or own["meanScore"] is None:
        dataset = workload.evaluation_dataset
        on = f"on {dataset.reference} by {workload.grader}" if dataset else "(the workload has no evaluation dataset)"
        raise NoEvidence(f"{version.reference} has no score {on}.",
                         hint=f"`evaluations start --model {version.reference} --workload {workload.name} --wait` "
                              "gives it one; --force with --note promotes it without.")
    if champion is not None and champion["meanScore"] is not None and own["meanScore"] <= champion["meanScore"]:
        raise NotBetter(f"{version.reference} scored {own['meanScore']:.4f}; the champion {champion['model']} scored "
                        f"{champion['meanScore']:.4f}.", hint="--force with --note promotes it all the same.")


def _move_alias(workload: Workload, version: Version, actor: Actor) -> None:
    """The registry's alias `champion` in the workload's namespace stands on the champion and nowhere else."""
    others = Alias.objects.filter(artifact__namespace=workload.namespace_id, artifact__kind="model", name=CHAMPION)
    for alias in others.exclude(artifact=version.artifact_id).select_related("artifact"):
        drop_alias(alias.artifact, CHAMPION, actor=actor)
    if version.artifact.namespace_id == workload.namespace_id:
        place_alias(version.artifact, CHAMPION, version, actor=actor)


class Promotions:
    """What apps below evaluations may ask for."""

    def promote(self, workload: Workload, version: Version, *, actor: Actor, note: str = "",
                force: bool = False) -> WorkloadReference:
        return promote(workload, version, actor=actor, note=note, force=force)
