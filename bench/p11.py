"""P11: figures that the worker takes into the database a second, against MLflow's own tracking store on Postgres.

MLflow's store is called inside its process, `log_batch` with 1,000 metrics at a time, which its server allows at most;
the way through its HTTP server is left out, in its favour. Ours is the whole way from a job's file.
"""

from __future__ import annotations

import os

from bench.figures import NAMES, Stored
from bench.measure import Arm, arguments, interleave, judge, load_before, seconds
from bench.registering import scratch_box
from bench.stepper import Stepper

LIMIT, BATCH = 10.0, 1000


def main(argv: list[str]) -> int:
    """A figure is one name at one update; MLflow runs in an environment of its own."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--mlflow", required=True, metavar="PYTHON", help="of an environment with mlflow and psycopg2")
    options = parser.parse_args(argv)
    with scratch_box():
        stored, load, updates = Stored(), load_before(), BATCH // len(NAMES)
        theirs = Stepper("mlflow_store.py", {"database": _their_database(), "batch": BATCH, "names": NAMES},
                         threads=options.threads, python=options.mlflow)  # fmt: skip
        at = [1]

        def ours() -> float:
            stored.write(at[0], updates)
            at[0] += updates
            return BATCH / seconds(stored.store)

        try:
            sides = Arm("a job's events stored", ours), Arm("MLflow's store", lambda: BATCH / theirs.step()["seconds"])
            print(f"figures a second, {BATCH:,} at a time")
            interleave(*sides, options.repeats)
        finally:
            theirs.close()
        return judge("P11", *sides, limit=LIMIT, load=load, max_load=options.max_load, more=True)


def _their_database() -> str:
    """A schema of its own in the scratch database, by the address that SQLAlchemy takes."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA mlflow")
    settings = connection.settings_dict
    host = settings["HOST"] or os.environ.get("PGHOST", "")
    return (f"postgresql+psycopg2://{settings['USER']}@/{connection.settings_dict['NAME']}?host={host}"
            "&options=-csearch_path%3Dmlflow")
