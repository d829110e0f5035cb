"""Preparing a base model: from its source to one ordinary folder that later jobs read, checked before it counts."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from transformers.utils import logging as transformers_logging

from optimize_child.bases import checks
from optimize_child.bases.gguf_model import convert_gguf
from optimize_child.bases.sources import Fetched, fetch, model_files
from optimize_child.job import Job

LINKABLE = (".safetensors",)


def run(job: Job) -> None:
    """Fetch, convert where needed, check against the catalog, and only then give the folder its name."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    plan, out = job.plan, Path(job.plan["out"])
    job.stage("fetching")
    fetched = fetch(job, plan["source"], plan["catalog"])
    beside = out.with_name(f".{out.name}.{os.getpid()}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        facts = make_folder(job, fetched, beside)
        put_in_place(beside, out)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    job.events.emit("finished", folder=str(out), revision=fetched.revision, sync=True, **facts)


def make_folder(job: Job, fetched: Fetched, folder: Path) -> dict[str, Any]:
    """Fill the folder and give back what is now known about the model."""
    catalog = job.plan["catalog"]
    if fetched.gguf:
        job.stage("converting")
        convert_gguf(fetched.gguf, folder, catalog.get("special_tokens") or {})
        fetched.discard()
    else:
        checks.refuse_code_and_pickles(fetched.folder)
        copy_model(fetched.folder, folder, link=fetched.immutable)
    job.leave_if_asked()
    job.stage("checking")
    facts = checks.examine(folder, catalog)
    files = [file_facts(folder, path) for path in sorted(folder.rglob("*")) if path.is_file()]
    return {**facts, "files": files, "bytes": sum(file["bytes"] for file in files)}


def copy_model(source: Path, folder: Path, *, link: bool) -> None:
    """The model's files and nothing else. With `link`, for a cache that never rewrites a file, weights take no room."""
    for path in model_files(source):
        _place(path.resolve(), folder / path.name, link=link and path.suffix in LINKABLE)


def _place(path: Path, target: Path, *, link: bool) -> None:
    if link:
        with suppress(OSError):
            os.link(path, target)
            return
    shutil.copyfile(path, target)


def file_facts(folder: Path, path: Path) -> dict[str, Any]:
    """A file's name, digest and size; flushed to the disk, and readable by every job of this box."""
    with suppress(PermissionError):
        path.chmod(0o644)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
    return {"path": str(path.relative_to(folder)), "sha256": digest, "bytes": path.stat().st_size}


def put_in_place(beside: Path, out: Path) -> None:
    """The folder appears whole. One that stands there from before is replaced."""
    if out.exists():
        old = out.with_name(f".{out.name}.{os.getpid()}.old")
        out.rename(old)
        beside.rename(out)
        shutil.rmtree(old, ignore_errors=True)
    else:
        beside.rename(out)
