"""Whether a snapshot is still what was committed: its manifests, and every file that they list."""

import hashlib
import json
from pathlib import Path

from runs.errors import SnapshotDamaged
from runs.models import Snapshot

WEIGHTS, TRAINING_STATE = "weights", "trainingState"
KINDS = (WEIGHTS, TRAINING_STATE)
FILES = {WEIGHTS: ("adapter_model.safetensors", "adapter_config.json"),
         TRAINING_STATE: ("optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", "position.json")}
MANIFESTS = {WEIGHTS: "weights.manifest.json", TRAINING_STATE: "state.manifest.json"}


def kinds_of(snapshot: Snapshot) -> list[str]:
    """What the snapshot still holds."""
    held = {WEIGHTS: snapshot.has_weights, TRAINING_STATE: snapshot.has_training_state}
    return [kind for kind in KINDS if held[kind] and kind not in snapshot.swept]


def digest_of(snapshot: Snapshot, kind: str) -> str:
    """The recorded digest of one kind's manifest."""
    return snapshot.manifest_sha256 if kind == WEIGHTS else snapshot.state_manifest_sha256


def verify_snapshot(folder: Path, snapshot: Snapshot) -> None:
    """Both kinds, as a resume reads them. Raises SnapshotDamaged."""
    for kind in KINDS:
        verify_kind(folder, kind, digest_of(snapshot, kind))


def verify_kind(folder: Path, kind: str, manifest_sha256: str) -> None:
    """Raises SnapshotDamaged, naming the file that is missing or not what the manifest says."""
    try:
        data = (folder / MANIFESTS[kind]).read_bytes()
        files = json.loads(data)["files"]
    except (OSError, ValueError, KeyError) as error:
        raise SnapshotDamaged(f"{folder.name}: the manifest cannot be read ({error}).") from error
    if hashlib.sha256(data).hexdigest() != manifest_sha256:
        raise SnapshotDamaged(f"{folder.name}: the manifest is not the one that was recorded.")
    for name, expected in files.items():
        _verify_file(folder, name, expected["sha256"])


def _verify_file(folder: Path, name: str, sha256: str) -> None:
    if Path(name).name != name:
        raise SnapshotDamaged(f"{folder.name}: the manifest names a file outside it, {name}.")
    try:
        with (folder / name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SnapshotDamaged(f"{folder.name}: {name} cannot be read ({error.strerror}).") from error
    if found != sha256:
        raise SnapshotDamaged(f"{folder.name}: {name} is not what the manifest says.")
