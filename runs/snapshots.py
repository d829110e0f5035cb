"""Whether a snapshot is still what was committed: its manifest, and every file that the manifest lists."""

import hashlib
import json
from pathlib import Path

from runs.errors import SnapshotDamaged

MANIFEST = "MANIFEST.json"


def verify_snapshot(folder: Path, manifest_sha256: str) -> None:
    """Raises SnapshotDamaged, naming the file that is missing or not what the manifest says."""
    try:
        data = (folder / MANIFEST).read_bytes()
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
