"""A stand-in for a job that says it started and then hangs, for tests of the worker: `python stalled_job.py FOLDER`."""

import ctypes
import json
import os
import sys
import threading
import time
from pathlib import Path

from fake_job import say, started

PR_SET_PTRACER, ANY = 0x59616D61, ctypes.c_ulong(-1)


def wait_for_what_never_comes(folder: Path) -> None:
    me = {"pid": os.getpid(), "started": started(os.getpid())}
    (folder / "pid.json").write_text(json.dumps({"shepherd": me, "job": me}))
    while True:
        time.sleep(3600)


def wait_beside_it() -> None:
    time.sleep(3600)


def main() -> None:
    folder = Path(sys.argv[1])
    # Where the kernel lets only ancestors look into a process, this lets the test's worker look as well.
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANY, 0, 0, 0)
    threading.Thread(target=wait_beside_it, daemon=True).start()
    say(folder, {"type": "started", "pid": os.getpid(), "versions": {}})
    wait_for_what_never_comes(folder)


if __name__ == "__main__":
    main()
