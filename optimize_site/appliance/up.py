"""`up` and `down`: what is started in which order, and how to stop it from outside."""

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from optimize_site.appliance.adoption import Nursery
from optimize_site.appliance.binaries import find_postgres
from optimize_site.appliance.console import READY, Console, PipeConsole
from optimize_site.appliance.documents import write_document
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.listener import Address, listen
from optimize_site.appliance.lock import HomeLock, supervisor_of
from optimize_site.appliance.outside import outside_url
from optimize_site.appliance.places import Places
from optimize_site.appliance.postgres import Cluster
from optimize_site.appliance.postgres_user import choose_run_as
from optimize_site.appliance.roster import (
    control_service,
    device_services,
    postgres_service,
    valkey_service,
    web_service,
)
from optimize_site.appliance.service import Service
from optimize_site.appliance.steps import Step, is_static_current, note_static
from optimize_site.appliance.supervisor import StopRequested, Supervisor, end_left_overs
from optimize_site.appliance.valkey import Valkey

DOWN_SECONDS = 180


def run_up(places: Places, console: Console) -> int:
    """Bring the box up and keep it up until it is asked to stop; the exit status."""
    lock = HomeLock(places)
    places.create()
    lock.acquire()
    try:
        lock.sign()
        end_left_overs(places)
        _supervise(places, console)
    except StopRequested:
        console.say("The box was stopped while it started.")
    finally:
        lock.release()
    return 0


def run_detached(places: Places) -> int:
    """Bring the box up in a process of its own and wait until it is ready; the exit status."""
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        os.close(read_end)
        _become_daemon(places, write_end)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8", errors="replace") as pipe:
        for line in pipe:
            if line.rstrip("\n") == READY:
                return 0
            print(line, end="", flush=True)
    return 1


def run_down(places: Places) -> int:
    """Stop the box that runs on this state folder; the exit status."""
    supervisor = supervisor_of(places)
    if supervisor is None:
        print(f"The box in {places.home} is not up.")
        return 0
    print("Stopping; running jobs save first …", flush=True)
    began = time.monotonic()
    supervisor.send(signal.SIGTERM)
    if not supervisor.wait(DOWN_SECONDS):
        raise ApplianceError(
            f"The box did not stop within {DOWN_SECONDS} s (process {supervisor.pid}).",
            hint=f"See {places.logs / 'supervisor.log'}; `kill -9 {supervisor.pid}` ends it at once.",
        )
    print(f"The box is down ({time.monotonic() - began:.1f} s).")
    return 0


def _become_daemon(places: Places, pipe: int) -> None:
    """The child of `up --detach`: leaves the terminal, runs the box, and never returns."""
    os.setsid()
    if os.fork():
        os._exit(0)
    status = 1
    try:
        places.create()
        console = PipeConsole(pipe, places.logs / "supervisor.log")
        _leave_terminal(places.logs / "supervisor.log")
        status = run_reporting(lambda: run_up(places, console), console)
    except ApplianceError as error:
        os.write(pipe, f"{error}\n".encode())
    finally:
        os._exit(status)


def run_reporting(action: Callable[[], int], console: Console) -> int:
    """Run an action; what stops it is told in a sentence."""
    try:
        return action()
    except ApplianceError as error:
        console.say(str(error))
        return 1


def _leave_terminal(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for source, target in ((nothing, 0), (descriptor, 1), (descriptor, 2)):
        os.dup2(source, target)


def _supervise(places: Places, console: Console) -> None:
    began = time.monotonic()
    with ExitStack() as stack:
        listener, address = listen(Address.chosen())
        stack.enter_context(listener)
        supervisor = Supervisor(places, console)
        stack.enter_context(supervisor.watching())
        _start_services(places, console, supervisor, listener, address)
        console.say(f"Optimize is ready at {address.url} ({time.monotonic() - began:.1f} s).")
        if not address.is_loopback:
            console.say(f"It listens on {address.host}: see docs/security.md for allowed hosts and TLS.")
        if isinstance(console, PipeConsole):
            console.let_go()
        supervisor.keep_running()
    console.say("The box is down.")


def _start_services(
    places: Places, console: Console, supervisor: Supervisor, listener: socket.socket, address: Address
) -> None:
    """The order: servers; schema and static files; web and control; accounts and devices; device workers."""
    supervisor.web_url = address.url
    static = None if is_static_current(places) else Step(places, "collectstatic", "--noinput", "--clear")
    embedded, urls = _servers(places, console)
    write_document(places.services, {**urls, "web_url": address.url})
    nursery = Nursery(places, listener.fileno())
    supervisor.start(*embedded)
    console.say("The database is ready; its schema is brought up to date …")
    tell_password(console, supervisor.finish(Step(places, "box_ready", keep_output=True)))
    if static:
        supervisor.finish(static)
        note_static(places)
    supervisor.adopt(nursery, [web_service(places, address.url, listener.fileno())])
    supervisor.adopt(nursery, [control_service(places), *device_services(places)])
    supervisor.wait_until(supervisor.all_ready)


def tell_password(console: Console, printed: str) -> None:
    """Show the first admin's password, on the first start alone and outside the log."""
    password = json.loads(printed.strip().splitlines()[-1])["adminPassword"]
    if password:
        console.say(f"Sign in as `admin` with the password {password} (it is shown this once).", keep=False)


def _servers(places: Places, console: Console) -> tuple[list[Service], dict[str, str]]:
    """The embedded servers that are needed, and the addresses of all."""
    services = []
    database, redis = outside_url(places, "DATABASE_URL"), outside_url(places, "REDIS_URL")
    if not database:
        programs = find_postgres()
        run_as, programs = choose_run_as(places, programs)
        cluster = Cluster(places, programs, run_as)
        if not places.postgres.exists():
            console.say(f"First start: making the database in {places.postgres} …")
        cluster.prepare()
        services.append(postgres_service(cluster))
        database = cluster.url()
    if not redis:
        valkey = Valkey(places)
        services.append(valkey_service(valkey))
        redis = valkey.url()
    return services, {"database_url": database, "redis_url": redis}


def standard_console(places: Places) -> Console:
    """The console of a supervisor in the foreground."""
    return Console(sys.stdout.fileno(), places.logs / "supervisor.log")
