"""Places at which a box stands still: inside the transaction that takes a run out of a phase.

A trigger in the box's own database holds every transaction that leaves a phase with a barrier, until the barrier is
taken away. It is a row, so that it holds what comes there again after the database was killed. What leaves `TRAINING`
is held earlier: as the figures of an update are stored, while the run's job is at work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from bench.chaos.scene import PATIENCE, database
from tests.e2e.conftest import Box

TRAINED = 10
"""The update whose figures are held as they are stored."""
KEY = 14163
INSTALL = f"""
CREATE TABLE chaos_barrier (phase text PRIMARY KEY);
CREATE FUNCTION chaos_stand(at_phase text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM chaos_barrier WHERE phase = at_phase) THEN
    PERFORM pg_advisory_xact_lock_shared({KEY}, hashtext(at_phase));
    WHILE EXISTS (SELECT FROM chaos_barrier WHERE phase = at_phase) LOOP
      PERFORM pg_sleep(0.005);
    END LOOP;
  END IF;
END $$;
CREATE FUNCTION chaos_leave() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM chaos_stand(OLD.phase);
  RETURN NEW;
END $$;
CREATE FUNCTION chaos_store() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM chaos_stand('TRAINING');
  RETURN NEW;
END $$;
CREATE TRIGGER chaos_leave BEFORE UPDATE ON runs_run FOR EACH ROW
  WHEN (OLD.phase <> NEW.phase AND OLD.phase <> 'TRAINING') EXECUTE FUNCTION chaos_leave();
CREATE TRIGGER chaos_store BEFORE INSERT ON runs_metric FOR EACH ROW
  WHEN (NEW.step >= {TRAINED}) EXECUTE FUNCTION chaos_store();
"""
REMOVE = """
DROP TRIGGER chaos_leave ON runs_run;
DROP TRIGGER chaos_store ON runs_metric;
DROP FUNCTION chaos_leave, chaos_store, chaos_stand;
DROP TABLE chaos_barrier;
"""
STANDS = ("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted"
          f" AND classid = {KEY} AND objid = hashtext(%s)::oid")


class Gone(Exception):
    """The run came past a place, or to its end, without standing there."""


class Places:
    """The barriers of one box."""

    def __init__(self, box: Box) -> None:
        self.box = box

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The box can be held inside the block, and is as it was behind it."""
        with database(self.box) as connection:
            connection.execute(INSTALL)
        try:
            yield
        finally:
            self._ask("DELETE FROM chaos_barrier")
            self._ask(REMOVE)

    def bar(self, phases: list[str]) -> None:
        """Whoever takes a run out of one of these phases is held."""
        with database(self.box) as connection:
            for phase in phases:
                connection.execute("INSERT INTO chaos_barrier VALUES (%s) ON CONFLICT DO NOTHING", [phase])

    def let_go(self, phase: str) -> None:
        """Take a barrier away, from a database that may be coming back."""
        self._ask("DELETE FROM chaos_barrier WHERE phase = %s", phase)

    def await_stand(self, phase: str, run_id: str) -> None:
        """Until the box stands at the barrier of a phase. Raises Gone where the run is over, TimeoutError where it does
        neither; without an ID there is no run yet."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with database(self.box) as connection:
                    while not connection.execute(STANDS, [phase]).fetchone():
                        _go_on_waiting(connection, phase, run_id, deadline)
                    return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise

    def phase_of(self, run_id: str) -> str:
        """The phase that is committed."""
        with database(self.box) as connection:
            return _phase(connection, run_id)

    def _ask(self, statement: str, *values: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with database(self.box) as connection:
                    connection.execute(statement, values or None)
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def _go_on_waiting(connection: psycopg.Connection[tuple[str, ...]], phase: str, run_id: str, deadline: float) -> None:
    if run_id and _phase(connection, run_id) in {"COMPLETED", "FAILED", "CANCELLED"}:
        raise Gone(phase)
    if time.monotonic() > deadline:
        raise TimeoutError(f"nobody came to take {run_id[:12] or 'a run'} out of {phase} in {PATIENCE:.0f} s")
    time.sleep(0.005)


def _phase(connection: psycopg.Connection[tuple[str, ...]], run_id: str) -> str:
    found = connection.execute("SELECT phase FROM runs_run WHERE id = %s", [run_id]).fetchone()
    return found[0] if found else ""
