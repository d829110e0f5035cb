"""Snapshots: written beside, flushed, renamed; the manifest with every file's digest is the last file and the proof."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from optimize_child.failures import JobFailure

MANIFEST = "MANIFEST.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_config.json")
TRAINING_STATE = ("optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", "position.json")


class Written(NamedTuple):
    """A complete snapshot: its folder, its size, the digest of its manifest."""

    folder: Path
    bytes: int
    manifest_sha256: str


def write_snapshot(attempt: Path, step: int, fill: Callable[[Path], None], *, run: str, attempt_id: str) -> Written:
    """Let `fill` write the files of step `step`, and make them a snapshot. Until it is whole, its name is not there."""
    folder = attempt / "snapshots" / f"step-{step}"
    beside = folder.with_name(f".step-{step}.partial")
    for leftover in (beside, folder):
        shutil.rmtree(leftover, ignore_errors=True)
    beside.mkdir(parents=True)
    fill(beside)
    files = {path.name: _sealed(path) for path in sorted(beside.iterdir())}
    manifest = {
        "version": 1,
        "run": run,
        "attempt": attempt_id,
        "step": step,
        "files": files,
        "weights": all(name in files for name in WEIGHTS),
        "trainingState": all(name in files for name in TRAINING_STATE),
    }
    data = json.dumps(manifest, indent=1, sort_keys=True).encode()
    (beside / MANIFEST).write_bytes(data)
    _sealed(beside / MANIFEST)
    _flush_folder(beside)
    beside.rename(folder)
    _flush_folder(folder.parent)
    return Written(folder, sum(file["bytes"] for file in files.values()), hashlib.sha256(data).hexdigest())


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


def verify_snapshot(folder: Path, *, manifest_sha256: str | None = None, step: int | None = None) -> dict[str, Any]:
    """The manifest of a snapshot whose every file is what the manifest says, and which holds training state.

    Nothing of a snapshot is loaded before this: a pickled state is only as trustworthy as the digest we wrote.
    Raises JobFailure `snapshot_invalid`.
    """
    try:
        data = (folder / MANIFEST).read_bytes()
        manifest: dict[str, Any] = json.loads(data)
    except (OSError, json.JSONDecodeError) as error:
        raise _invalid(folder, f"its manifest cannot be read ({error})") from error
    if manifest_sha256 is not None and hashlib.sha256(data).hexdigest() != manifest_sha256:
        raise _invalid(folder, "its manifest is not the one that was recorded")
    if step is not None and manifest.get("step") != step:
        raise _invalid(folder, f"it is of step {manifest.get('step')}, not {step}")
    if not manifest.get("trainingState"):
        raise _invalid(folder, "it holds no training state")
    for name, expected in manifest["files"].items():
        _check_file(folder, name, expected)
    return manifest


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
