"""The prepared process: imports the training libraries once and forks a job from that in milliseconds.

It imports and nothing else. A tensor operation before the fork starts thread pools, and the forked job hangs on
locks which threads held that it does not have. Run as `python -P -m optimize_child.zygote SOCKET_PATH`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from optimize_child import shepherd
from optimize_child.code import code_version
from optimize_child.local_socket import listen

IDLE_SECONDS = 900.0
LARGEST_REQUEST = 1 << 20


def main(socket_path: Path) -> int:
    """Import, listen, fork a shepherd for each request, leave after a quiet while."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    version = code_version()
    import_libraries()
    idle = float(os.environ.get("OPTIMIZE_ZYGOTE_IDLE_SECONDS", IDLE_SECONDS))
    signal.signal(signal.SIGCHLD, reap)
    with contextlib.closing(listen(socket_path)) as server:
        try:
            serve(server, version, idle)
        finally:
            socket_path.unlink(missing_ok=True)
    return 0


def import_libraries() -> None:
    """Everything a job imports. Frozen afterwards, so that the collector does not touch pages which forks share."""
    import peft  # noqa: F401
    import torch  # noqa: F401
    import transformers  # noqa: F401
    from transformers.models.llama import modeling_llama  # noqa: F401
    from trl import SFTConfig, SFTTrainer  # noqa: F401

    gc.collect()
    gc.freeze()


def serve(server: socket.socket, version: str, idle_seconds: float) -> None:
    """Answer requests until none came for `idle_seconds`, or one asks this process to retire."""
    last = time.monotonic()
    while True:
        server.settimeout(max(0.1, last + idle_seconds - time.monotonic()))
        try:
            connection, _ = server.accept()
        except TimeoutError:
            return
        with connection:
            last = time.monotonic()
            if not answer(server, connection, version):
                return


def answer(server: socket.socket, connection: socket.socket, version: str) -> bool:
    """One request; False when it was to retire. Whatever a client sends, this process goes on."""
    connection.settimeout(5)
    try:
        request = json.loads(read_line(connection))
        if request.get("retire"):
            return False
        reply = start(server, connection, request) if "attempt_dir" in request else describe(version)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        reply = {"error": f"{type(error).__name__}: {error}"}
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(reply).encode() + b"\n")
    return True


def read_line(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        chunk = connection.recv(65536)
        if not chunk or len(data) > LARGEST_REQUEST:
            raise ValueError("a request is one line of JSON")
        data += chunk
    return data


def describe(version: str) -> dict[str, Any]:
    """What the launcher asks before it trusts this process with a job."""
    return {"pid": os.getpid(), "version": version, "threads": sum(1 for _ in Path("/proc/self/task").iterdir())}


def start(server: socket.socket, connection: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
    """Fork a shepherd for the attempt, in a session of its own; it forks the job."""
    attempt, env = Path(request["attempt_dir"]), dict(request.get("env") or {})
    if not (attempt / "plan.json").is_file():
        raise ValueError(f"{attempt} holds no plan")
    pid = os.fork()
    if pid:
        return {"pid": pid}
    try:
        server.close()
        connection.close()
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.update(env)
        os.environ["OPTIMIZE_PREPARED"] = "1"
        os.chdir(attempt)
        shepherd.redirect_output(attempt)
        shepherd.tend(attempt, fork_job, watchdog_seconds=shepherd.FIRST_EVENT_SECONDS)
        os._exit(0)
    finally:
        os._exit(1)


def fork_job(attempt: Path) -> int:
    """The job in a fork of this process, libraries and all."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        from optimize_child import job

        code = job.main(attempt)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def reap(_number: int, _frame: Any) -> None:
    """Bury shepherds that ended; their records are in their attempts' folders."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
