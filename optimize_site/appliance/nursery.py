"""The nursery: loads the server's code once and forks the web and every worker from it, so that they share its memory.

The supervisor starts it early, then writes lists of services to its standard input, one a line: all of them at first,
and later each that ended. A service is forked twice, so that it becomes a child of the supervisor (the nearest
subreaper), which watches it like any other; the nursery answers each list with a line of pids. It stays as long as the
supervisor, and costs little, because nearly all its memory is shared with the services: one that ended is there again
without loading anything.
"""

import gc
import importlib
import json
import os
import signal
import sys
import time
from typing import Any

from optimize_site.appliance.processes import dies_with_this_parent

ADOPTION_SECONDS = 10
PROGRAMS = {"celery": ("celery.__main__", "main"), "gunicorn": ("gunicorn.app.wsgiapp", "run")}
"""What a service may be, and the function that each program begins with."""
# What the services import as they start: loaded here, it is shared.
LOADED = (
    *("celery.bin.celery", "celery.bin.worker", "celery.apps.worker", "celery.concurrency.solo", "celery.beat"),
    "celery.concurrency.thread",
    *(
        "celery.worker.consumer",
        "celery.worker.strategy",
        "kombu.transport.redis",
        "optimize_site.appliance.celery_hooks",
    ),
    *("django.db.backends.postgresql.base", "gpu_worker.control", "gpu_worker.drive"),
    *("gunicorn.app.wsgiapp", "gunicorn.arbiter", "optimize_site.appliance.web_worker", "optimize_site.urls"),
)


def main() -> None:
    """Load, then fork what each line asks for, until there are no more."""
    supervisor = os.getppid()
    dies_with_this_parent(signal.SIGKILL)
    load()
    for line in iter(sys.stdin.readline, ""):
        print(json.dumps({wanted["name"]: _bear(wanted, supervisor) for wanted in json.loads(line)}), flush=True)


def load() -> None:
    """Everything that the services have in common; no connection is opened, no thread started, no static file looked
    for, which may be on their way still."""
    from django.conf import settings
    from django.utils.module_loading import import_string

    from optimize_site.celery import app

    app.loader.import_default_modules()
    app.finalize()
    for name in LOADED:
        importlib.import_module(name)
    for name in settings.MIDDLEWARE:
        import_string(name)
    gc.collect()
    gc.freeze()


def _bear(wanted: dict[str, Any], supervisor: int) -> int:
    """Fork one service; its pid."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        if grandchild := os.fork():
            os.write(write_end, str(grandchild).encode())
            os._exit(0)
        os.close(read_end)
        os.close(write_end)
        _live(wanted, supervisor)
    os.close(write_end)
    os.waitpid(child, 0)
    with os.fdopen(read_end) as pipe:
        return int(pipe.read())


def _live(wanted: dict[str, Any], supervisor: int) -> None:
    """Become the service, and never return."""
    status = 1
    try:
        os.setsid()
        _tie_to(supervisor)
        _use_log(wanted["log"])
        for descriptor in wanted["closed"]:
            os.close(descriptor)
        os.environ.update(wanted["env"])
        sys.argv = list(wanted["forked"])
        module, function = PROGRAMS[sys.argv[0]]
        status = int(getattr(importlib.import_module(module), function)() or 0)
    except SystemExit as ending:
        status = ending.code if isinstance(ending.code, int) else 1
    finally:
        os._exit(status)


def _tie_to(supervisor: int) -> None:
    """End with the supervisor, once it has become this process's parent."""
    deadline = time.monotonic() + ADOPTION_SECONDS
    while os.getppid() != supervisor:
        if time.monotonic() > deadline:
            os._exit(1)
        time.sleep(0.005)
    dies_with_this_parent(signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)


def _use_log(path: str) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)


if __name__ == "__main__":
    main()
