"""The device worker: claims, leases and fencing, events stored exactly once, and how every ending settles."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db import IntegrityError, OperationalError, transaction
from django.utils import timezone

from gpu_worker import claims, control, drive, kinds, processes, tail
from gpu_worker.errors import LeaseLost
from optimize_site.kernel import clock
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.ids import new_id
from optimize_site.kernel.models import Attempt, Device, Lease
from optimize_site.kernel.phases import move, table
from optimize_site.kernel.work import OneByOne, attempt_folder
from optimize_site.processes import Identity, start_time
from registry.models import BaseModel

pytestmark = pytest.mark.django_db
FAKE = Path(__file__).resolve().parents[1] / "fake_job.py"
PHASES = table("fake", {"WAITING": {"RUNNING"}, "RUNNING": {"WAITING", "DONE", "BROKEN"}, "DONE": (), "BROKEN": ()},
               active={"RUNNING"})


class FakeKind(OneByOne):
    """Work whose rows are spare BaseModel rows and whose plan a test sets."""

    kind = "fake"

    def __init__(self):
        self.plans, self.seen, self.endings, self.stop = {}, [], [], False

    def waiting(self, device):
        return BaseModel.objects.filter(phase="WAITING").order_by("queued_at")

    def get(self, pk):
        return BaseModel.objects.get(pk=pk)

    def start(self, row, attempt):
        move(row, "RUNNING", phases=PHASES, actor=SYSTEM, lease_token=attempt.lease.token, num_attempts=attempt.number)

    def plan(self, row, attempt):
        return self.plans.get(row.repository, {"events": [{"type": "finished", "step": 1}]})

    def on_event(self, row, attempt, event):
        self.seen.append(event["type"])

    def on_exit(self, row, attempt, ending):
        self.endings.append(ending)
        to = {"lost": "WAITING", "failed": "BROKEN"}.get(ending.outcome, "DONE")
        move(row, to, phases=PHASES, actor=SYSTEM)

    def ask(self, row):
        return "stop" if self.stop else ""


@pytest.fixture
def kind(monkeypatch):
    fake = FakeKind()
    monkeypatch.setattr(kinds, "KINDS", {"fake": fake})
    monkeypatch.setattr(claims, "KINDS", {"fake": fake})
    monkeypatch.setattr(drive, "KINDS", {"fake": fake})
    return fake


@pytest.fixture
def device():
    return Device.objects.create(uuid="cpu", node="here", name="CPU", kind="cpu", profile="cpu", slots=2)


def make_work(name="a"):
    return BaseModel.objects.create(id=new_id(), repository=name, phase="WAITING", queued_at=timezone.now())


def start_fake(folder: Path, *, env):
    return subprocess.Popen([sys.executable, str(FAKE), str(folder)], start_new_session=True).pid


def serve(slot=0, *, should_stop=lambda: False):
    drive.serve_slot("cpu", slot, should_stop=should_stop, starter=start_fake)


def live_leases():
    return Lease.objects.filter(released_at=None).count()


def test_waiting_work_is_driven_to_its_end_and_the_slot_is_free_again(kind, device):
    row = make_work()
    serve()
    row.refresh_from_db()
    assert (row.phase, row.lease_token, live_leases()) == ("DONE", None, 0)
    assert Attempt.objects.get().outcome == "finished"


def test_work_is_driven_in_the_order_in_which_it_began_to_wait(kind, device):
    first, second = make_work("first"), make_work("second")
    serve()
    driven = Attempt.objects.order_by("started_at").values_list("holder_id", flat=True)
    assert list(driven) == [first.pk, second.pk]


def test_a_slot_with_a_live_lease_is_given_nothing_more_even_when_the_lease_expired(kind, device):
    make_work("first")
    make_work("second")
    held = claims.claim("cpu", 0)
    Lease.objects.filter(pk=held.lease.pk).update(expires_at=timezone.now() - timezone.timedelta(hours=1))
    assert claims.claim("cpu", 0) is None


def test_two_slots_of_a_device_hold_different_work(kind, device):
    make_work("first")
    make_work("second")
    assert claims.claim("cpu", 0).holder_id != claims.claim("cpu", 1).holder_id


def test_the_database_itself_refuses_two_live_leases_of_one_slot(kind, device):
    row = make_work()
    claims.claim("cpu", 0)
    with pytest.raises(IntegrityError), transaction.atomic():
        Lease.objects.create(device=device, slot=0, holder_kind="fake", holder_id=row.pk, token=9,
                             expires_at=timezone.now())


@pytest.mark.requirement("R192")
def test_a_slot_is_freed_only_when_the_job_s_process_is_gone(kind, device):
    row = make_work()
    kind.plans[row.repository] = {"events": [{"type": "finished", "step": 1}], "hold": True}
    polls = iter([False, False])

    def stop_after_a_look():
        assert live_leases() <= 1
        return next(polls, True)

    serve(should_stop=stop_after_a_look)
    assert live_leases() == 0
    assert not processes.any_alive(attempt_folder(Attempt.objects.get().pk))


def test_a_job_that_dies_without_a_word_is_lost_and_its_work_waits_again(kind, device):
    row = make_work()
    kind.plans[row.repository] = {"events": [{"type": "metrics", "step": 1}], "exit": 9}
    attempt = claims.claim("cpu", 0)
    drive.Driver(attempt, should_stop=lambda: False, starter=start_fake).drive()
    row.refresh_from_db()
    assert (row.phase, kind.endings[0].outcome, kind.endings[0].exit["code"]) == ("WAITING", "lost", 9)


def test_a_job_that_reports_a_failure_failed(kind, device):
    row = make_work()
    kind.plans[row.repository] = {"events": [{"type": "failure", "code": "bad_row", "reason": "…"}], "exit": 1}
    serve()
    row.refresh_from_db()
    assert row.phase == "BROKEN"


@pytest.mark.requirement("R016")
def test_a_new_worker_adopts_the_running_job_and_reads_on_where_the_old_one_stopped(kind, device):
    row = make_work()
    kind.plans[row.repository] = {"events": [{"type": "metrics", "step": n} for n in range(3)], "hold": True}
    attempt = claims.claim("cpu", 0)
    first = drive.Driver(attempt, should_stop=lambda: False, starter=start_fake)
    first._begin()
    wait_for(lambda: first.store_events())
    kind.stop = True
    serve()
    row.refresh_from_db()
    assert kind.seen == ["metrics"] * 3 + ["stopped"]
    assert Attempt.objects.filter(holder_id=row.pk).count() == 1
    assert Attempt.objects.get().outcome == "stopped"


def test_the_worker_that_was_replaced_writes_nothing_more(kind, device):
    row = make_work()
    kind.plans[row.repository] = {"events": [{"type": "metrics", "step": 1}], "hold": True}
    zombie = drive.Driver(claims.claim("cpu", 0), should_stop=lambda: False, starter=start_fake)
    zombie._begin()
    wait_for(lambda: (attempt_folder(zombie.attempt.pk) / "events.jsonl").exists())
    claims.adopt("cpu", 0)
    with pytest.raises(LeaseLost):
        zombie.store_events()
    with pytest.raises(LeaseLost):
        claims.renew(zombie.attempt.lease)
    processes.end(zombie.folder)
    assert kind.seen == []


@pytest.mark.requirement("R016")
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_takes_no_job_from_its_worker_and_frees_the_slot_of_one_that_is_gone(
    kind, device, monkeypatch, hours
):
    row = make_work()
    kind.plans[row.repository] = {"events": [{"type": "metrics", "step": 1}], "hold": True}
    driver = drive.Driver(claims.claim("cpu", 0), should_stop=lambda: False, starter=start_fake)
    driver._begin()
    monkeypatch.setattr(clock, "now", lambda: timezone.now() + timezone.timedelta(hours=hours))
    control.reap()
    driver._step()
    assert live_leases() == 1
    processes.end(driver.folder)
    Lease.objects.update(expires_at=timezone.now())  # as it was written before the clock was set
    control.reap()
    row.refresh_from_db()
    assert (live_leases(), row.phase, kind.seen) == (0, "WAITING", ["metrics"])


@pytest.mark.requirement("R016")
@pytest.mark.parametrize("place", ["write_control", "read_ending"])
def test_an_attempt_that_a_full_disk_keeps_from_being_settled_keeps_no_other_from_it(
    kind, device, monkeypatch, caplog, place
):
    honest, refused = getattr(drive, place), []

    def fails_once(*arguments):
        if not refused:
            refused.append(arguments)
            raise OSError(errno.ENOSPC, "No space left on device")
        return honest(*arguments)

    for slot in range(2):
        make_work(f"row-{slot}")
        claims.claim("cpu", slot)
    monkeypatch.setattr(drive, place, fails_once)
    monkeypatch.setattr(drive.time, "sleep", lambda seconds: pytest.fail("a pass waits for nothing"))
    for left in (1, 0):
        Lease.objects.update(expires_at=timezone.now() - timezone.timedelta(hours=1))
        control.reap()
        assert live_leases() == left
    assert [record.action for record in caplog.records] == ["attempt_not_settled"]


@pytest.mark.requirement("R016")
def test_a_worker_that_wakes_behind_its_attempt_s_end_starts_nothing_and_kills_nothing_of_others(kind, device):
    make_work()
    late = drive.Driver(claims.claim("cpu", 0), should_stop=lambda: False, starter=start_fake)
    Lease.objects.update(expires_at=timezone.now() - timezone.timedelta(hours=1))
    control.reap()
    before = Attempt.objects.values().get()
    with pytest.raises(LeaseLost):
        late.drive()
    assert not processes.recorded(late.folder), "a job was started for an attempt that had ended"
    (late.folder / "plan.json").write_text("{}")
    start_fake(late.folder, env={})  # it had been about to
    wait_for(lambda: processes.recorded(late.folder))
    with pytest.raises(LeaseLost):
        late.drive()
    assert not processes.any_alive(late.folder)
    assert Attempt.objects.values().get() == before


@pytest.mark.requirement("R016")
def test_a_worker_that_wakes_while_another_drives_its_job_leaves_it_alone(kind, device):
    row = make_work()
    kind.plans[row.repository] = {"hold": True}
    late = drive.Driver(claims.claim("cpu", 0), should_stop=lambda: False, starter=start_fake)
    late._begin()
    late.asked, late.asked_since = "stop", -1e9  # it would lose its patience at once
    adopted = claims.adopt("cpu", 0)
    told = (late.folder / "control.json").read_text()
    for act in (late._step, late._begin):
        with pytest.raises(LeaseLost):
            act()
    assert processes.any_alive(late.folder)
    assert (late.folder / "control.json").read_text() == told
    assert drive.Driver(adopted, should_stop=lambda: False, starter=start_fake)._begin()
    processes.end(late.folder)


@pytest.mark.requirement("R016")
def test_a_full_disk_makes_a_worker_wait_and_costs_no_job(kind, device, monkeypatch):
    row = make_work()
    kind.plans[row.repository] = {"events": [{"type": "metrics", "step": 1}, {"type": "finished", "step": 1}]}
    honest, refused, made = drive.write_control, [], []
    plan = kind.plan
    monkeypatch.setattr(kind, "plan", lambda row, attempt: made.append(row) or plan(row, attempt))

    def write(*arguments):
        refused.append(arguments)
        if len(refused) in (1, 3):  # before the job, and beside it
            raise OSError(errno.ENOSPC, "No space left on device")
        honest(*arguments)

    monkeypatch.setattr(drive, "write_control", write)
    monkeypatch.setattr(drive.time, "sleep", lambda seconds: None)
    serve()
    row.refresh_from_db()
    assert (row.phase, kind.seen, Attempt.objects.count()) == ("DONE", ["metrics", "finished"], 1)
    assert len(made) == 1, "a plan is made once, however often it finds no room"


def test_a_plan_that_takes_long_to_make_costs_the_attempt_nothing(kind, device, monkeypatch):
    """Nor does a full disk that keeps it from being made: the lease is good when the job is about to speak."""
    make_work()
    good, tries = [], []

    def plan(row, attempt):
        good.append(Lease.objects.get().expires_at > timezone.now())
        tries.append(Lease.objects.update(expires_at=timezone.now() - timezone.timedelta(hours=1)))
        if len(tries) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return {"events": [{"type": "finished", "step": 1}]}

    def start(folder, *, env):
        good.append(Lease.objects.get().expires_at > timezone.now())
        return start_fake(folder, env=env)

    monkeypatch.setattr(kind, "plan", plan)
    monkeypatch.setattr(drive.time, "sleep", lambda seconds: None)
    attempt = claims.claim("cpu", 0)
    Lease.objects.update(expires_at=timezone.now() - timezone.timedelta(hours=1))
    drive.Driver(attempt, should_stop=lambda: False, starter=start).drive()
    assert good == [True, True, True]
    assert Attempt.objects.get().outcome == "finished"


def test_events_of_a_batch_that_was_rolled_back_are_read_again(kind, device, monkeypatch):
    row = make_work()
    kind.plans[row.repository] = {"events": [{"type": "metrics", "step": 1}, {"type": "finished", "step": 1}]}
    real, failed = kind.on_event, []

    def fail_once(row, attempt, event):
        if not failed:
            failed.append(event)
            raise OperationalError("server closed the connection")
        real(row, attempt, event)

    monkeypatch.setattr(kind, "on_event", fail_once)
    monkeypatch.setattr(drive, "close_old_connections", lambda: None)
    serve()
    assert kind.seen == ["metrics", "finished"]


def test_a_cancelled_row_s_job_is_asked_to_stop(kind, device):
    row = make_work()
    kind.plans[row.repository] = {"hold": True}
    kind.stop = True
    attempt = claims.claim("cpu", 0)
    drive.Driver(attempt, should_stop=lambda: False, starter=start_fake).drive()
    assert kind.endings[0].outcome == "stopped"


def test_a_job_that_could_not_be_started_is_a_failure_with_the_reason(kind, device):
    make_work()

    def refuse(folder, *, env):
        raise OSError("no such interpreter")

    drive.serve_slot("cpu", 0, should_stop=lambda: False, starter=refuse)
    assert "no such interpreter" in tail.ending(attempt_folder(Attempt.objects.get().pk))["reason"]


def test_a_reused_pid_is_not_taken_for_the_job(tmp_path):
    me = Identity.of(os.getpid())
    assert me.is_alive()
    assert not Identity(os.getpid(), me.started + 1).is_alive()


def test_a_job_that_ignores_being_asked_is_killed(tmp_path):
    stubborn = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN);"
                                 " print(1, flush=True); time.sleep(60)"], stdout=subprocess.PIPE)
    stubborn.stdout.readline()
    stamp = start_time(stubborn.pid)
    (tmp_path / "pid.json").write_text(f'{{"job": {{"pid": {stubborn.pid}, "started": {stamp}}}}}')
    processes.TERM_SECONDS, kept = 0.2, processes.TERM_SECONDS
    try:
        processes.end(tmp_path)
    finally:
        processes.TERM_SECONDS = kept
    assert stubborn.wait() == -signal.SIGKILL
    stubborn.stdout.close()


def test_half_a_line_is_not_an_event_yet(tmp_path):
    (tmp_path / "events.jsonl").write_text('{"type": "a"}\n{"type": "b"')
    events, offset = tail.read_events(tmp_path, 0)
    assert ([event["type"] for event in events], offset) == (["a"], 14)
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write("}\n")
    assert tail.read_events(tmp_path, offset)[0] == [{"type": "b"}]


def wait_for(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
