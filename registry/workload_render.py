"""Workloads as documents."""

from typing import Any

from optimize_site.kernel.models import Event
from registry.model_queries import serving_of
from registry.model_render import version_row
from registry.models import Version, Workload, WorkloadReference
from registry.workload_queries import references_of


def workload_row(workload: Workload) -> dict[str, Any]:
    """A row of the list."""
    dataset = workload.evaluation_dataset
    return {"workloadId": workload.pk, "name": workload.name, "namespace": workload.namespace_id,
            "description": workload.description, "evaluation": _evaluation(dataset, workload),
            "isArchived": workload.archived_at is not None, "archivedAt": workload.archived_at,
            "isNamespaceArchived": workload.namespace.archived_at is not None,
            "createdBy": workload.created_by, "createdAt": workload.created_at}


def workload_document(workload: Workload) -> dict[str, Any]:
    """The workload with what it refers to."""
    references = references_of(workload)
    return workload_row(workload) | {"references": {name: reference_document(reference)
                                                    for name, reference in references.items()}}


def reference_document(reference: WorkloadReference) -> dict[str, Any]:
    """Where a reference points: model ID, serving details, where the artifact lies, who moved it and on what."""
    version = reference.version
    return version_row(version) | {
        "name": reference.name, "servingModel": version.descriptor.get("servingModel", {}),
        "location": serving_of(version).ref or None, "evidence": reference.evidence, "movedBy": reference.moved_by,
        "movedAt": reference.moved_at}


def history_row(event: Event) -> dict[str, Any]:
    """One change of a workload."""
    return {"type": event.type, "at": event.at, "actor": event.actor, "reason": event.reason, **event.data}


def _evaluation(dataset: Version | None, workload: Workload) -> dict[str, Any] | None:
    if dataset is None:
        return None
    return {"dataset": dataset.reference, "datasetId": dataset.pk, "contentHash": dataset.content_hash,
            "grader": workload.grader, "graderInstructions": workload.grader_instructions or None}
