"""Starting a job: from the prepared process when one is ready, else plainly.

A job never depends on the worker that started it: it lives in its own session, and everything passes through the
attempt's folder.
"""

import hashlib
import json
import os
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from optimize_site.kernel.job_packages import jobs_venv
from optimize_site.processes import Identity, start_time

REPOSITORY = Path(__file__).resolve().parent.parent
CHILD_ROOT = REPOSITORY / "gpu_worker" / "child"
SOCKET_NAME, CLAIM_NAME = "zygote.sock", "zygote.pid"
ANSWER_SECONDS = 5.0

# Kept so that ended children are reaped and none is reported as abandoned.
_children: list[subprocess.Popen[bytes]] = []


class JobsNotInstalled(RuntimeError):
    """The job environment is missing; `./optimize up` makes it."""


def job_python() -> Path:
    """The interpreter of the job environment."""
    venv = jobs_venv()
    python = venv / "bin" / "python"
    if not python.exists():
        raise JobsNotInstalled(f"There is no job environment at {venv}. Run ./optimize up, which makes it.")
    return python


def start_job(attempt_dir: Path, *, env: Mapping[str, str] | None = None) -> int:
    """Start the job of an attempt whose plan.json is written; the pid of its shepherd.

    The prepared process takes it when it is ready and runs the present code. Otherwise the job starts plainly, and
    a prepared process is begun for the next one.
    """
    attempt_dir, variables = attempt_dir.resolve(), job_environment(env or {})
    folder = zygote_folder(attempt_dir)
    if os.environ.get("OPTIMIZE_ZYGOTE", "1") == "0":
        return _start_plainly(attempt_dir, variables)
    pid = ask_zygote(folder, {"attempt_dir": str(attempt_dir), "env": variables}) if zygote_ready(folder) else None
    if pid is not None:
        return pid
    shepherd = _start_plainly(attempt_dir, variables)
    start_zygote(folder)
    return shepherd


def job_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The variables a job gets on top of the worker's own: its path holds the job package and nothing else of ours.

    The box runs more than the job, so its threads sleep at a barrier and do not spin on a core another process needs.
    """
    return {"PYTHONPATH": str(CHILD_ROOT), "PYTHONSAFEPATH": "1", "OMP_WAIT_POLICY": "passive", **extra}


def zygote_folder(attempt_dir: Path) -> Path:
    """Where the prepared process of this state folder has its socket: `<home>/run` for `<home>/attempts/<id>`."""
    return attempt_dir.parent.parent / "run"


def start_zygote(folder: Path) -> None:
    """Begin a prepared process unless one is alive or another worker is beginning one. It takes seconds to be ready."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if zygote_process(folder):
        return
    with (folder / "zygote.log").open("ab") as log:
        process = subprocess.Popen(
            [str(job_python()), "-P", "-m", "optimize_child.zygote", str(folder / SOCKET_NAME)],
            env={**os.environ, **job_environment({}), **_SINGLE_THREADED},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _children.append(process)
    (folder / CLAIM_NAME).write_text(f"{process.pid} {start_time(process.pid)}")


def zygote_process(folder: Path) -> Identity | None:
    """The prepared process, ready or still importing; None where none runs."""
    try:
        pid, started = (int(word) for word in (folder / CLAIM_NAME).read_text().split())
    except (FileNotFoundError, ValueError):
        return None
    _reap()
    found = Identity(pid, started)
    return found if found.is_alive() else None


def retire_zygote(folder: Path) -> None:
    """Ask the prepared process to leave, if there is one: the code has changed."""
    with suppress(OSError, ValueError):
        _ask(folder, {"retire": True})


def zygote_ready(folder: Path) -> bool:
    """Whether a prepared process answers and runs the present code; one of older code is retired."""
    try:
        reply = _ask(folder, {"hello": True})
    except (OSError, ValueError):
        return False
    if reply.get("version") == code_version():
        return True
    retire_zygote(folder)
    return False


def ask_zygote(folder: Path, request: dict[str, Any]) -> int | None:
    """The pid of the shepherd that the prepared process forked; None when it did not."""
    try:
        pid = _ask(folder, request).get("pid")
    except (OSError, ValueError):
        return None
    return int(pid) if pid is not None else None


def code_version() -> str:
    """The digest of the job package as it lies on the disk, the way the prepared process computes its own."""
    digest = hashlib.sha256()
    package = CHILD_ROOT / "optimize_child"
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


# Library pools that start with their import would be threads in a process that forks.
_SINGLE_THREADED = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


def _start_plainly(attempt_dir: Path, variables: Mapping[str, str]) -> int:
    _reap()
    process = subprocess.Popen(
        [str(job_python()), "-P", "-m", "optimize_child.shepherd", str(attempt_dir)],
        env={**os.environ, **variables},
        cwd=attempt_dir,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(attempt_dir / "stderr.log").open("ab"),
        start_new_session=True,
    )
    _children.append(process)
    return process.pid


def _reap() -> None:
    _children[:] = [child for child in _children if child.poll() is None]


def _ask(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """One request to the prepared process, through its folder: the path of a socket has a short limit."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(f"/proc/self/fd/{descriptor}/{SOCKET_NAME}")
            connection.sendall(json.dumps(request).encode() + b"\n")
            reply: dict[str, Any] = json.loads(connection.makefile("rb").readline())
            return reply
    finally:
        os.close(descriptor)
