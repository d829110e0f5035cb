"""The services of the box, in the order in which they start."""

import contextlib
import http.client
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from optimize_site.appliance.announce import READY_FILE, TIMER_VARIABLE
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.places import Places
from optimize_site.appliance.postgres import Cluster
from optimize_site.appliance.postgres_user import NAMESPACE
from optimize_site.appliance.python import environment, module, run
from optimize_site.appliance.service import Service
from optimize_site.appliance.valkey import Valkey

DEVICE_PREFIX = "device/"
# A device worker waits for its job to save before it ends.
DEVICE_STOP_SECONDS = 90
ALONE = ("--pool", "solo")
CELERY = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO",
          "--include", "optimize_site.appliance.celery_hooks")  # fmt: skip


def postgres_service(cluster: Cluster) -> Service:
    """The database server. It ends by SIGINT, Postgres's fast shutdown."""
    prefix = cluster.run_as.prefix
    if prefix == NAMESPACE:  # becoming `nobody` of a namespace clears what a child takes when its parent ends
        prefix = (*prefix, "setpriv", "--pdeathsig", "INT")
    return Service(
        name="postgres",
        command=[*prefix, *cluster.command()],
        is_ready=cluster.is_ready,
        env={"LC_ALL": "C.UTF-8"},
        cwd=Path("/"),
        user=cluster.run_as.user,
        group=cluster.run_as.group,
        before_start=lambda: _end_left_over(cluster),
        stop_signal=signal.SIGINT,
        stop_seconds=60,
        death_signal=signal.SIGINT,
    )


def valkey_service(valkey: Valkey) -> Service:
    """The doorbell."""
    return Service("valkey", valkey.command(), lambda _: valkey.is_ready(), death_signal=signal.SIGTERM)


def web_service(places: Places, url: str, descriptor: int) -> Service:
    """The pages and the API, on a listening socket that the supervisor keeps."""
    arguments = ("optimize_site.asgi:application", "--config", "python:optimize_site.appliance.gunicorn_config",
                 "--bind", f"fd://{descriptor}")  # fmt: skip
    is_ready, env, before = _by_announcement(places, "web")
    return Service(
        "web",
        module("gunicorn", *arguments),
        lambda pid: is_ready(pid) and answers(url),
        env,
        forked=("gunicorn", *arguments),
        pass_fds=(descriptor,),
        before_start=before,
    )


def control_service(places: Places) -> Service:
    """The worker for control steps, with the timer beside it."""
    return _worker(places, "control", "control", {TIMER_VARIABLE: "1"})


def device_services(places: Places) -> list[Service]:
    """One worker for each device. It serves all of the device's slots, each in a thread."""
    return [_device_service(places, device) for device in read_devices(places)]


def read_devices(places: Places) -> list[dict[str, Any]]:
    """The devices of this machine, asked for in a process of their own."""
    done = run(places, module("gpu_worker.devices"))
    if done.returncode:
        raise ApplianceError("The devices of this machine could not be listed.", log=done.stderr.strip()[-2000:])
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def answers(url: str) -> bool:
    """Whether the web answers there without failing."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=2)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("GET", "/healthz")
        return connection.getresponse().status < 500
    return False


def _device_service(places: Places, device: dict[str, Any]) -> Service:
    uuid, slots = device["uuid"], range(device["slots"])
    env = {
        "OPTIMIZE_DEVICE": uuid,
        "OPTIMIZE_SLOTS": ",".join(map(str, slots)),
        "CUDA_VISIBLE_DEVICES": uuid if device["kind"] == "gpu" else "",
    }
    pool = ("--pool", "threads", "--concurrency", str(len(slots))) if len(slots) > 1 else ALONE
    queues = ",".join(f"device.{uuid}.{slot}" for slot in slots)
    return _worker(places, DEVICE_PREFIX + uuid, queues, env, pool)


def _worker(places: Places, name: str, queues: str, env: dict[str, str], pool: tuple[str, ...] = ALONE) -> Service:
    is_ready, ready_env, before = _by_announcement(places, name.replace("/", "-"))
    arguments = ("--quiet", "--app", "optimize_site.celery:app", "worker", "--queues", queues,
                 "--hostname", f"{queues.partition(',')[0]}@%h", *pool, *CELERY)  # fmt: skip
    return Service(
        name,
        module("celery", *arguments),
        is_ready,
        # Celery would have Django check itself in every worker, which loads the pages and the API: `up` does that once.
        {**ready_env, "CELERY_SKIP_CHECKS": "1", **env},
        forked=("celery", *arguments),
        before_start=before,
        stop_seconds=DEVICE_STOP_SECONDS if name.startswith(DEVICE_PREFIX) else 10,
    )


def _by_announcement(places: Places, name: str) -> tuple[Callable[[int], bool], dict[str, str], Callable[[], None]]:
    """Readiness by the file that the process makes; the file of an earlier start is removed first."""
    mark = places.ready / name
    env = {**environment(places), READY_FILE: str(mark)}
    return lambda _: mark.exists(), env, lambda: mark.unlink(missing_ok=True)


def _end_left_over(cluster: Cluster) -> None:
    """A server from before must be gone: two on one cluster are refused by Postgres itself."""
    if found := cluster.left_over():
        found.end(signal.SIGINT, seconds=60)
