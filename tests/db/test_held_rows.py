"""A worker that is stopped inside its transaction holds its rows: nobody waits for it, its work goes on after it."""

from datetime import timedelta

import pytest
from django.db import connection

from evaluations.models import Pipeline
from gpu_worker import control
from optimize_site.kernel import clock
from optimize_site.kernel.models import Lease
from runs.operations import advance_run
from tests.factories import make_device, make_run
from tests.playing import claim, reread


@pytest.fixture
def stopped(transactional_db, own_state):
    """`stopped(model)`: a worker of its own connection locks the rows, and is stopped before it commits."""
    other = connection.copy()
    other.set_autocommit(False)

    def hold(*models):
        with other.cursor() as cursor:
            for model in models:
                cursor.execute(f"SELECT 1 FROM {model._meta.db_table} FOR UPDATE")
        return other

    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '1s'")
    yield hold
    other.close()
    with connection.cursor() as cursor:
        cursor.execute("RESET lock_timeout")


@pytest.mark.requirement("R016")
def test_the_reconciler_passes_over_what_a_stopped_worker_holds_and_takes_it_up_once_it_is_let_go(stopped):
    make_device()
    run = make_run()
    advance_run(run.pk)
    claim(run)
    Lease.objects.update(expires_at=clock.now() - timedelta(minutes=10))
    Pipeline.objects.create(id="e" * 64, workload=run.workload, phase="RUNNING", descriptor={})

    def passed():
        answered = control.advance_everything(is_thorough=False)
        return answered, bool(Lease.objects.get().released_at), Pipeline.objects.get().phase, reread(run).phase

    worker = stopped(Lease, Pipeline)
    assert passed() == (True, False, "RUNNING", "STARTING_JOB")
    worker.close()
    assert passed() == (True, True, "COMPLETED", "AWAITING_CAPACITY")
