"""P7: how much memory the web process takes on while a gigabyte is uploaded to it, over what it takes at idle."""

from __future__ import annotations

import os
import secrets
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx

from bench.measure import arguments, load_before, verdict
from bench.p23 import proportional_mebibytes, tree
from bench.registering import MEBIBYTE, fresh, scratch_box, template

LIMIT = 24
IDLE_SECONDS = 3.0


def main(argv: list[str]) -> int:
    """The server is a process of its own, as the box runs it; its helpers count as part of it."""
    parser = arguments(__doc__ or "", repeats=5)
    parser.add_argument("--mebibytes", type=int, default=1024)
    options = parser.parse_args(argv)
    load = load_before()
    with scratch_box() as home:
        source = template(home, options.mebibytes * MEBIBYTE)
        token, small = _token(), template(_folder(home), MEBIBYTE)
        growths = []
        for number in range(options.repeats):
            path = fresh(source, number)
            growths.append(_growth(home, token, fresh(small, number), path))
            path.unlink()
            print(f"  upload {number + 1}: +{growths[-1]:.1f} MiB")
    worst, middle = max(growths), statistics.median(growths)
    text = f"P7: +{middle:.1f} MiB in the middle, +{worst:.1f} at most (bar ≤ +{LIMIT})"
    return verdict(text, middle <= LIMIT, options.repeats, load, options.max_load)


def _folder(home: Path) -> Path:
    folder = home / "small"
    folder.mkdir()
    return folder


def _token() -> str:
    from django.core.management import call_command

    from optimize_site.kernel.accounts import create_user, issue_token
    from optimize_site.kernel.auth import LOCAL

    call_command("collectstatic", interactive=False, verbosity=0)
    create_user("bench", "operator", password=secrets.token_urlsafe(), actor=LOCAL)
    return issue_token("bench", "bench", actor=LOCAL)[1]


def _growth(home: Path, token: str, small: Path, large: Path) -> float:
    """The most memory of a new server's processes during an upload, less what they held after a small one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    words = ["gunicorn", "optimize_site.asgi:application", "-k", "uvicorn_worker.UvicornWorker", "--preload",
             "-b", f"127.0.0.1:{port}", "--timeout", "60"]
    server = subprocess.Popen([sys.executable, "-m", *words], env=_environment(), stderr=subprocess.DEVNULL)
    try:
        _send(port, token, small)
        time.sleep(IDLE_SECONDS)
        idle, most, done = _held(server.pid), [0.0], threading.Event()
        watcher = threading.Thread(target=_watch, args=(server.pid, most, done))
        watcher.start()
        _send(port, token, large)
        done.set()
        watcher.join()
        return most[0] - idle
    finally:
        server.terminate()
        server.wait()


def _environment() -> dict[str, str]:
    """The server uses the scratch database that this process made."""
    from django.db import connection

    settings = connection.settings_dict
    url = f"postgresql://{settings['USER']}:{settings['PASSWORD']}@/{settings['NAME']}?host={settings['HOST']}"
    return {**os.environ, "DATABASE_URL": url}


def _send(port: int, token: str, path: Path) -> None:
    """Register a file over HTTP as the command does."""
    from argparse import Namespace

    from datasets import sending_shards
    from optimize_site.kernel.client import Client

    client = Client(f"http://127.0.0.1:{port}", token)
    for _ in range(120):
        try:
            httpx.get(f"http://127.0.0.1:{port}/healthz")
            break
        except httpx.TransportError:
            time.sleep(0.5)
    command = Namespace(client=client, options=Namespace(quiet=True), say=lambda text: None)
    sending_shards.register(command, "bench/rows", path, None, {})


def _watch(pid: int, most: list[float], done: threading.Event) -> None:
    while not done.wait(0.05):
        most[0] = max(most[0], _held(pid))


def _held(pid: int) -> float:
    return sum(map(proportional_mebibytes, tree(pid)))
