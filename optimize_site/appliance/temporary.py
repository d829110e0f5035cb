"""A database that runs while something short needs it: a backup of a box that is down, a restore, the tests."""

import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from optimize_site.appliance.binaries import find_postgres
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.logs import last_lines, open_log
from optimize_site.appliance.places import Places
from optimize_site.appliance.postgres import Cluster
from optimize_site.appliance.postgres_user import choose_run_as
from optimize_site.appliance.roster import postgres_service
from optimize_site.appliance.unit import spawn

READY_SECONDS = 60
# A database that is thrown away need not survive a power cut.
THROWAWAY = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")


@contextmanager
def running_postgres(places: Places, options: Sequence[str] = ()) -> Iterator[str]:
    """The state folder's own Postgres, running inside the block; gives its address. The caller holds the lock."""
    run_as, programs = choose_run_as(places, find_postgres())
    cluster = Cluster(places, programs, run_as)
    cluster.prepare()
    service = postgres_service(cluster)
    service.before_start()
    log = open_log(places.logs / "postgres.log")
    process = spawn(service, log, extra=options)
    try:
        _wait(process, cluster, places)
        yield cluster.url()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _wait(process: subprocess.Popen[bytes], cluster: Cluster, places: Places) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not cluster.is_ready(process.pid):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n".join(f"    {line}" for line in last_lines(places.logs / "postgres.log", 10))
            raise ApplianceError(f"The database in {places.postgres} does not start.", log=tail)
        time.sleep(0.05)
