"""Whether what a run keeps on the disk is what was recorded: its saves by manifests, its models by hashes."""

import json
from collections.abc import Iterator

from optimize_site.kernel.blobs import kept_digest
from registry.adapter_files import WEIGHTS as WEIGHTS_FILE
from registry.models import Version
from runs import queries
from runs.errors import SnapshotDamaged
from runs.models import Candidate, Run, Snapshot
from runs.snapshots import MANIFESTS, WEIGHTS, digest_of, kinds_of, verify_kind
from runs.verify_records import Checked


def check_files(run: Run) -> Iterator[Checked]:
    """The checks that read every byte the run keeps."""
    held = [(snapshot, kind) for snapshot in run.snapshots.filter(removed_at=None).order_by("step", "attempt")
            for kind in kinds_of(snapshot)]
    yield Checked("saves", len(held), "kinds", tuple(problem for snapshot, kind in held
                                                     for problem in _save(snapshot, kind)))
    final = run.snapshots.filter(is_final=True, has_weights=True).order_by("-attempt").first()
    problems = [*_made(run, final), *(problem for version, source in _models(run, final)
                                      for problem in _model(run, version, source))]
    yield Checked("models", len(_models(run, final)), "models", tuple(problems))


def _save(snapshot: Snapshot, kind: str) -> Iterator[str]:
    try:
        verify_kind(queries.folder_of_snapshot(snapshot), kind, digest_of(snapshot, kind))
    except SnapshotDamaged as damage:
        snapshot.refresh_from_db(fields=["swept"])
        if kind in kinds_of(snapshot):  # else retention removed it between the two looks
            yield f"Update {snapshot.step}, attempt {snapshot.attempt}: {damage.detail}"


def _made(run: Run, final: Snapshot | None) -> Iterator[str]:
    """A run that says it completed has a final save and a model."""
    if run.phase == "COMPLETED" and final is None:
        yield "The run is COMPLETED and has no final save with weights."
    if run.phase == "COMPLETED" and run.model is None:
        yield "The run is COMPLETED and has no model."


def _models(run: Run, final: Snapshot | None) -> list[tuple[Version, Snapshot | None]]:
    """Every model made of the run, with the save whose weights it is."""
    own = [(run.model, final)] if run.model is not None else []
    made = Candidate.objects.filter(snapshot__run=run).select_related("snapshot", "version__artifact")
    return own + [(candidate.version, candidate.snapshot) for candidate in made if candidate.version is not None]


def _model(run: Run, version: Version, source: Snapshot | None) -> Iterator[str]:
    for entry in version.objects_listing:
        found = _kept(entry["sha256"])
        if found != entry["sha256"]:
            yield (f"{version.reference}: {entry['path']} was registered with the hash {entry['sha256']}, and "
                   f"{f'its bytes hash to {found}' if found else 'is not on this box'}.")
    if version.lineage.get("configHash") != run.config_hash:
        yield (f"{version.reference} names the configuration {version.lineage.get('configHash')}; the run's is "
               f"{run.config_hash}.")
    if source is not None and WEIGHTS in kinds_of(source):
        yield from _same_weights(version, source)


def _kept(sha256: str) -> str:
    try:
        return kept_digest(sha256)
    except OSError:
        return ""


def _same_weights(version: Version, source: Snapshot) -> Iterator[str]:
    """The model's weights are those of its save. A manifest that cannot be read is the save's problem."""
    registered = next((entry["sha256"] for entry in version.objects_listing if entry["path"] == WEIGHTS_FILE), "")
    try:
        manifest = json.loads((queries.folder_of_snapshot(source) / MANIFESTS[WEIGHTS]).read_bytes())
        saved = manifest["files"][WEIGHTS_FILE]["sha256"]
    except (OSError, ValueError, KeyError):
        return
    if saved != registered:
        yield (f"{version.reference} has the weights {registered}; the save of update {source.step} that it was made "
               f"of has {saved}.")
