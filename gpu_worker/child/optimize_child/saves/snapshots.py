"""Snapshots: written beside, flushed, renamed. Each kind has a manifest of its own, its last file and its proof.

`weights` is what a model is made of, `trainingState` what a run goes on from. Either can be read, kept or removed
without the other.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimize_child.failures import JobFailure

MANIFESTS = {"weights": "weights.manifest.json", "trainingState": "state.manifest.json"}
FILES = {
    "weights": ("adapter_model.safetensors", "adapter_config.json"),
    "trainingState": ("optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", "position.json"),
}


@dataclass(frozen=True)
class Written:
    """A complete snapshot: its folder, its size, the digest of each kind's manifest."""

    folder: Path
    bytes: int
    manifests: dict[str, str]

    def event(self, attempt: Path) -> dict[str, Any]:
        """What the snapshot's event says of it."""
        return {
            "folder": str(self.folder.relative_to(attempt)),
            "weights": "weights" in self.manifests,
            "trainingState": "trainingState" in self.manifests,
            "manifestSha256": self.manifests["weights"],
            "stateManifestSha256": self.manifests.get("trainingState"),
            "bytes": self.bytes,
        }


def beside(attempt: Path, step: int) -> Path:
    """A new folder for the files of a save that is not a snapshot yet."""
    folder = attempt / "snapshots" / f".step-{step}.partial"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def publish(partial: Path, step: int, kinds: Iterable[str], *, run: str, attempt_id: str) -> Written:
    """Make a snapshot of the files in `partial`. Until it is whole, its name is not there."""
    digests, size = {}, 0
    for kind in kinds:
        files = {name: _sealed(partial / name) for name in FILES[kind]}
        size += sum(file["bytes"] for file in files.values())
        manifest = {"version": 2, "kind": kind, "run": run, "attempt": attempt_id, "step": step, "files": files}
        digests[kind] = _write_manifest(partial / MANIFESTS[kind], manifest)
    _flush_folder(partial)
    folder = partial.with_name(f"step-{step}")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    _flush_folder(folder.parent)
    return Written(folder, size, digests)


def write_snapshot(attempt: Path, step: int, fill: Callable[[Path], None], *, run: str, attempt_id: str) -> Written:
    """Let `fill` write the files of both kinds, and make them a snapshot."""
    partial = beside(attempt, step)
    fill(partial)
    return publish(partial, step, FILES, run=run, attempt_id=attempt_id)


def _write_manifest(path: Path, manifest: dict[str, Any]) -> str:
    data = json.dumps(manifest, indent=1, sort_keys=True).encode()
    path.write_bytes(data)
    return _sealed(path)["sha256"]


def _sealed(path: Path) -> dict[str, Any]:
    """The digest and size of a file that is on the disk when this returns."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return {"sha256": digest, "bytes": path.stat().st_size}


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def verify_resume(resume: dict[str, Any]) -> None:
    """Both kinds of the snapshot that a plan goes on from are what was committed. Raises JobFailure."""
    folder, step = Path(resume["folder"]), resume["step"]
    verify_kind(folder, "weights", manifest_sha256=resume.get("manifest_sha256"), step=step)
    verify_kind(folder, "trainingState", manifest_sha256=resume.get("state_manifest_sha256"), step=step)


def verify_kind(folder: Path, kind: str, *, manifest_sha256: str | None, step: int | None = None) -> dict[str, Any]:
    """The manifest of one kind, whose every file is what the manifest says.

    Nothing of a snapshot is loaded before this: a pickled state is only as trustworthy as the digest we wrote.
    Raises JobFailure `snapshot_invalid`.
    """
    try:
        data = (folder / MANIFESTS[kind]).read_bytes()
        manifest: dict[str, Any] = json.loads(data)
    except (OSError, json.JSONDecodeError) as error:
        raise _invalid(folder, f"the manifest of its {_words(kind)} cannot be read ({error})") from error
    if manifest_sha256 is not None and hashlib.sha256(data).hexdigest() != manifest_sha256:
        raise _invalid(folder, f"the manifest of its {_words(kind)} is not the one that was recorded")
    if step is not None and manifest.get("step") != step:
        raise _invalid(folder, f"it is of step {manifest.get('step')}, not {step}")
    missing = [name for name in FILES[kind] if name not in manifest["files"]]
    if missing:
        raise _invalid(folder, f"its {_words(kind)} lacks {missing[0]}")
    for name, expected in manifest["files"].items():
        _check_file(folder, name, expected)
    return manifest


def _words(kind: str) -> str:
    return "training state" if kind == "trainingState" else kind


def _check_file(folder: Path, name: str, expected: dict[str, Any]) -> None:
    if Path(name).name != name:
        raise _invalid(folder, f"it names a file outside itself, {name}")
    try:
        with (folder / name).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _invalid(folder, f"{name} cannot be read ({error})") from error
    if digest != expected["sha256"]:
        raise _invalid(folder, f"{name} is not what the manifest says")


def _invalid(folder: Path, what: str) -> JobFailure:
    return JobFailure(
        "snapshot_invalid",
        f"The snapshot {folder.name} cannot be used: {what}.",
        hint="Start the run again, or resume it from an earlier snapshot.",
        folder=str(folder),
    )
