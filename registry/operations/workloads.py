"""Workloads: making, naming, judging, referring, archiving. Each change is an event of the workload."""

from typing import Any

from django.db import IntegrityError, transaction

from optimize_site.kernel import clock, events, promotion
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import InvalidInput, Problem
from optimize_site.kernel.graders import DEFAULT, available_grader, check_instructions
from optimize_site.kernel.ids import SHOWN, looks_like_id
from optimize_site.kernel.in_progress import in_progress
from registry.errors import (
    MalformedName,
    NamespaceTaken,
    NotABaseModel,
    WorkInProgress,
    WorkloadArchived,
    WorkloadExists,
)
from registry.model_queries import get_model, serving_of
from registry.models import Artifact, Namespace, Version, Workload, WorkloadReference
from registry.operations.namespaces import refuse_archived
from registry.queries import resolve_version
from registry.references import PART, RULE, shown

RESERVED = frozenset({"counts", "latest"})
REFERENCES = tuple(WorkloadReference.Name.values)


@transaction.atomic
def create_workload(name: str, *, dataset: str = "", grader: str = "", instructions: str = "", description: str = "",
                    actor: Actor) -> Workload:
    """A workload and its registry namespace of the same name; `dataset` and `grader` judge its models, and a grader
    that is a model is told the `instructions`.

    Raises MalformedName, WorkloadExists, NamespaceTaken, NamespaceArchived, UnknownVersion, MalformedGrader,
    InstructionsDoNotApply, InstructionsTooLong.
    """
    actor.require("operator")
    _check_name(name)
    _check_free(name)
    namespace, _ = Namespace.objects.get_or_create(name=name, defaults={"created_by": actor.name})
    _check_namespace(namespace)
    version = _dataset(dataset, name) if dataset else None
    scorer = _grader(grader, dataset=dataset, namespace=name)
    told = check_instructions(scorer, instructions)
    try:
        with transaction.atomic():
            workload = Workload.objects.create(name=name, namespace=namespace, description=description, grader=scorer,
                                               grader_instructions=told, evaluation_dataset=version,
                                               created_by=actor.name)
    except IntegrityError as error:
        raise _exists(name) from error
    _tell(workload, "created", actor, name=name, dataset=_shown(version), grader=scorer,
          **_told("graderInstructions", told))
    return workload


@transaction.atomic
def rename_workload(workload: Workload, name: str, *, actor: Actor) -> Workload:
    """Change the workload's label. Its namespace, runs and models stay as they are, and the old name is free again."""
    actor.require("operator")
    if name == workload.name:
        return workload
    _check_name(name)
    _check_free(name)
    if Workload.objects.filter(namespace=name).exclude(pk=workload.pk).exists():
        raise NamespaceTaken(f"The namespace {name} belongs to another workload.", hint="Choose another name.")
    return _change(workload, "renamed", actor, {"name": name}, name=name, previous=workload.name)


@transaction.atomic
def annotate_workload(workload: Workload, *, description: str | None, actor: Actor) -> Workload:
    """Set the note; an empty text clears it, None leaves it."""
    actor.require("operator")
    if description is None or description == workload.description:
        return workload
    return _change(workload, "annotated", actor, {"description": description}, description=description)


@transaction.atomic
def set_evaluation(workload: Workload, *, dataset: str, grader: str = "", instructions: str = "",
                   actor: Actor) -> Workload:
    """Set the dataset and grader that judge the workload's models, and what a grader that is a model is told. Scores
    under other ones leave its default table. Raises InvalidInput without a dataset, UnknownVersion, MalformedGrader,
    InstructionsDoNotApply, InstructionsTooLong."""
    actor.require("operator")
    if not dataset:
        raise InvalidInput("No evaluation data is named, and a grader stands with the rows that it judges.",
                           hint="Name a dataset.", code="dataset_required")
    version = _dataset(dataset, workload.namespace_id)
    scorer = _grader(grader, dataset=dataset, namespace=workload.namespace_id)
    told, before = check_instructions(scorer, instructions), workload.grader_instructions
    if (version, scorer, told) == (workload.evaluation_dataset, workload.grader, before):
        return workload
    return _change(workload, "evaluation_set", actor, {"evaluation_dataset": version, "grader": scorer,
                                                       "grader_instructions": told},
                   dataset=_shown(version), grader=scorer, **_told("graderInstructions", told),
                   previousDataset=_shown(workload.evaluation_dataset), previousGrader=workload.grader,
                   **_told("previousGraderInstructions", before))


@transaction.atomic
def set_reference(workload: Workload, name: str, model: str, *, actor: Actor, note: str = "",
                  force: bool = False) -> WorkloadReference:
    """Point `base`, `candidate` or `champion` at a model. `base` takes a base model; `champion` is a promotion.

    Raises InvalidInput, WorkloadArchived, NotABaseModel, and what a promotion raises.
    """
    actor.require("operator")
    refuse_archived_workload(workload)
    if name not in REFERENCES:
        raise InvalidInput(f"A workload has no reference {name!r}.", hint=f"One of {', '.join(REFERENCES)}.",
                           code="unknown_reference")
    version = get_model(model, workload.namespace_id)
    if name == WorkloadReference.Name.CHAMPION:
        promoted: WorkloadReference = promotion.promote(workload, version, actor=actor, note=note, force=force)
        return promoted
    if name == WorkloadReference.Name.BASE and not serving_of(version).is_base:
        repository = serving_of(version).base_model
        raise NotABaseModel(f"{version.reference} is trained from {repository}; `base` takes a base model.",
                            hint=f"Name {repository} instead.")
    return move_reference(workload, name, version, actor=actor, note=note)


def move_reference(workload: Workload, name: str, version: Version, *, actor: Actor, note: str = "",
                   evidence: dict[str, Any] | None = None) -> WorkloadReference:
    """Write where a reference points, with its evidence and an event. The decision was made by the caller."""
    before = workload.references.select_related("version__artifact").filter(name=name).first()
    reference, _ = WorkloadReference.objects.update_or_create(
        workload=workload, name=name, defaults={"version": version, "evidence": evidence or {}, "moved_by": actor.name})
    type_ = "promoted" if name == WorkloadReference.Name.CHAMPION else "reference_moved"
    _tell(workload, type_, actor, reference=name, modelId=version.pk, model=version.reference, reason=note,
          previousModelId=before.version_id if before else None,
          previousModel=before.version.reference if before else None, evidence=evidence or {})
    return reference


# Archiving -----------------------------------------------------------------------------------------------------------


@transaction.atomic
def archive_workload(workload: Workload, *, actor: Actor) -> Workload:
    """Take a finished workload and what belongs to it out of the lists, and let it take no new work.

    It can still be read, and its models named. Its namespace stays open. Archiving twice changes nothing. Raises
    WorkInProgress, naming each unfinished piece of work.
    """
    actor.require("operator")
    # Whoever adds work asks `check_takes_work`, which waits for this lock.
    locked = Workload.objects.select_for_update().get(pk=workload.pk)
    if locked.archived_at is not None:
        return locked
    _refuse_in_progress(locked)
    return _change(locked, "archived", actor, {"archived_at": clock.now()})


def _refuse_in_progress(workload: Workload) -> None:
    found = in_progress(workload)
    if not found:
        return
    listed = ", ".join(f"{item.kind} {item.id[:SHOWN]} ({item.phase})" for item in found[:20])
    more = f" and {len(found) - 20} more" if len(found) > 20 else ""
    problems = [Problem(f"{item.kind} {item.id[:SHOWN]}", "in_progress", f"It is {item.phase}.", item.command)
                for item in found]
    raise WorkInProgress(f"The workload {workload.name} has work in progress: {listed}{more}.", problems=problems,
                         hint="Wait until it is over, or cancel it.")


@transaction.atomic
def unarchive_workload(workload: Workload, *, actor: Actor) -> Workload:
    """Undo `archive_workload`. An open workload stays as it is."""
    actor.require("operator")
    locked = Workload.objects.select_for_update().get(pk=workload.pk)
    return locked if locked.archived_at is None else _change(locked, "unarchived", actor, {"archived_at": None})


def refuse_archived_workload(workload: Workload | None) -> None:
    """Raises WorkloadArchived, with the command that brings it back, where the workload takes no new work."""
    if workload is not None and workload.archived_at is not None:
        raise WorkloadArchived(f"The workload {workload.name} is archived and takes no new work.",
                               hint=f"`./optimize workloads unarchive {workload.name}` brings it back.")


def refuse_archived_owner(namespace: str) -> None:
    """`refuse_archived_workload` for the workload whose namespace this is, where it is one's."""
    refuse_archived_workload(Workload.objects.filter(namespace=namespace).first())


def check_takes_work(workload_id: str) -> None:
    """`refuse_archived_workload` as the database has it now, and until the caller's transaction ends.

    Call it in the transaction that writes the new work's row: an archiving that came first is seen, and one that comes
    later waits and sees the row.
    """
    refuse_archived_workload(Workload.objects.select_for_update(no_key=True).get(pk=workload_id))


def _change(workload: Workload, what: str, actor: Actor, columns: dict[str, Any], **data: Any) -> Workload:
    Workload.objects.filter(pk=workload.pk).update(**columns)
    _tell(workload, what, actor, **data)
    workload.refresh_from_db()
    return workload


def _tell(workload: Workload, what: str, actor: Actor, *, reason: str = "", **data: Any) -> None:
    events.record("workload", workload.pk, f"workload.{what}", actor=actor, data=data, reason=reason)


def _check_name(name: str) -> None:
    if PART.fullmatch(name) is None:
        raise MalformedName(f"{shown(name)} cannot be a workload's name.", hint=RULE)
    if looks_like_id(name) or name in RESERVED:
        raise MalformedName(f"{name!r} cannot be a workload's name: it " + (
            "is reserved." if name in RESERVED else "looks like an ID."), hint="Choose another name.")


def _check_free(name: str) -> None:
    if Workload.objects.filter(name=name).exists():
        raise _exists(name)


def _exists(name: str) -> WorkloadExists:
    return WorkloadExists(f"There is a workload {name} already.", hint=f"`workloads get {name}` shows it.")


def _check_namespace(namespace: Namespace) -> None:
    other = Workload.objects.filter(namespace=namespace).first()
    if other is not None:
        raise NamespaceTaken(f"The namespace {namespace.pk} belongs to the workload {other.name}.",
                             hint="A renamed workload keeps its namespace; choose another name.")
    refuse_archived(namespace)


def _dataset(text: str, namespace: str) -> Version:
    return resolve_version(Artifact.Kind.DATASET, text, namespace=namespace)


def _grader(text: str, *, dataset: str, namespace: str) -> str:
    """The grader's one text, checked; the default one where a dataset was named without."""
    if text:
        return available_grader(text, namespace=namespace)
    return DEFAULT if dataset else ""


def _told(name: str, instructions: str) -> dict[str, str]:
    """What a judge is told, as an event holds it; nothing where there is nothing."""
    return {name: instructions} if instructions else {}


def _shown(version: Version | None) -> str | None:
    return None if version is None else version.reference
