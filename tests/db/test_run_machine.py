"""Runs under every order of what operators, jobs, workers and the reconciler do, found by a state machine.

Each step calls the real operations on real rows; jobs are played. After each step the invariants hold: phases follow
each other as the table says, a slot is held exactly by an active run, figures have no gap, no save that somebody may go
on from is gone, and a run whose plan pauses rests there once.

The suite plays a few orders, the same each time. OPTIMIZE_TEST_ORDERS=500 plays so many others, twice as long ones.
"""

import os
from datetime import timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from gpu_worker import claims, control
from gpu_worker.errors import LeaseLost
from optimize_site.kernel import clock
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.models import Attempt, Lease
from runs import queries
from runs.models import Run, Snapshot
from runs.operations import (
    advance_all,
    cancel_run,
    pause_run,
    pin_snapshot,
    prioritize_run,
    register_candidate,
    resume_run,
    tend_snapshots,
    unpin_snapshot,
)
from runs.operations.branching import Wish, branch_run
from runs.phases import BEFORE_A_JOB, PHASES
from runs.snapshots import TRAINING_STATE, WEIGHTS, kinds_of
from runs.verify_files import check_files
from runs.verify_records import check_records
from tests.factories import make_device, make_run
from tests.playing import STARTED, WORK, end, failure, metrics, save, say, stage

SLOTS, STEPS, MOST_RUNS, PAUSES_AT = 2, 6, 4, 3
FEW_SAVES = {"keepAdapters": 1, "keepTrainingStates": 1}
"""So that retention has something to remove whenever it looks."""
PICK = st.integers(0, 11)
CODES = ("unexpected", "bad_row", "out_of_device_memory", "snapshot_invalid")
WISHES = (
    lambda run: pause_run(run, checkpoint="save", actor=LOCAL),
    lambda run: pause_run(run, checkpoint="latest", actor=LOCAL),
    lambda run: resume_run(run, actor=LOCAL),
    lambda run: resume_run(run, actor=LOCAL),
    lambda run: prioritize_run(run, actor=LOCAL),
    lambda run: cancel_run(run, actor=LOCAL),
)


class Job:
    """The played process of one attempt: where it is in its plan, and the saves it made."""

    def __init__(self, attempt, plan):
        self.attempt, self.pause_at, self.saved = attempt, plan["pause_at"], set()
        self.step = plan["resume"]["step"] if plan["resume"] else 0

    @property
    def run(self):
        return Run.objects.get(pk=self.attempt.holder_id)

    @property
    def rests(self):
        return self.step == self.pause_at


class Runs(RuleBasedStateMachine):
    """Two slots, a few runs, and everybody who may touch them."""

    def __init__(self):
        super().__init__()
        self.undo = transaction.atomic()
        self.undo.__enter__()
        self.runs, self.jobs = [], {}
        self.ended, self.whole, self.damaged = {}, {}, set()

    def teardown(self):
        try:
            self.bring_to_an_end()
        finally:
            transaction.set_rollback(True)
            self.undo.__exit__(None, None, None)

    # Operators -------------------------------------------------------------------------------------------------------

    @initialize(has_rested=st.booleans())
    def a_run_that_trains(self, has_rested):
        self.submit(PAUSES_AT)
        self.claim(0, True)
        self.train(0, 2, True)
        if has_rested:
            self.train(0, 1, True)
            self.obey(0)
            self.wish(0, lambda run: resume_run(run, actor=LOCAL))
            self.claim(0, True)

    @precondition(lambda self: len(self.runs) < MOST_RUNS)
    @rule(pauses_at=st.sampled_from([None, PAUSES_AT]))
    def submit(self, pauses_at):
        self.runs.append(make_run(execution=FEW_SAVES, **({"pauseAtStep": pauses_at} if pauses_at else {})).pk)
        advance_all()

    @precondition(lambda self: len(self.runs) < MOST_RUNS)
    @rule(pick=PICK, restore=st.sampled_from(["auto", "weights", "trainingState"]))
    def branch(self, pick, restore):
        snapshot = self.snapshot(pick)
        child = self.ask(snapshot.run, lambda run: branch_run(Wish(snapshot, STEPS, restore), actor=LOCAL).run)
        if child is not None:
            self.runs.append(child.pk)
            advance_all()

    @rule(pick=PICK, what=st.sampled_from(WISHES))
    def wish(self, pick, what):
        self.ask(self.run(pick), what)

    @rule(pick=PICK, what=st.sampled_from([pin_snapshot, unpin_snapshot, register_candidate]))
    def keep(self, pick, what):
        snapshot = self.snapshot(pick)
        self.ask(snapshot.run, lambda run: what(snapshot, actor=LOCAL))

    # The reconciler --------------------------------------------------------------------------------------------------

    @rule()
    def reconcile(self):
        advance_all()
        tend_snapshots()
        waiting = Run.objects.filter(pk__in=self.runs, phase__in=BEFORE_A_JOB, cancel_requested_at__isnull=False)
        assert not waiting.exists(), "a cancelled run without a job stayed open"
        self.read_every_file()

    # Workers and jobs ------------------------------------------------------------------------------------------------

    @rule(slot=st.integers(0, SLOTS - 1), speaks=st.booleans())
    def claim(self, slot, speaks):
        attempt = claims.claim("cpu", slot)
        assert attempt is None or slot not in self.jobs, "a slot was given twice"
        if attempt is None:
            return
        plan = WORK.plan(WORK.get(attempt.holder_id), attempt)
        attempt.save(update_fields=["resumed_step"])
        assert not plan["resume"] or plan["resume"]["folder"] not in self.damaged
        assert plan["pause_at"] is None or (plan["resume"] or {"step": 0})["step"] < plan["pause_at"]
        self.jobs[slot] = Job(attempt, plan)
        if speaks:
            say(self.jobs[slot].run, attempt, STARTED, stage("tokenising", 1, 2),
                {"type": "plan_size", "totalSteps": STEPS, "rowsPerEpoch": 8})

    @precondition(lambda self: self.jobs)
    @rule(pick=PICK, updates=st.integers(1, 3), whole=st.booleans())
    def train(self, pick, updates, whole):
        job = self.job(pick)
        self.step(job, min(job.step + updates, STEPS - 1))
        self.write(job, state=whole or job.rests)

    @precondition(lambda self: self.jobs)
    @rule(pick=PICK)
    def obey(self, pick):
        slot, job = self.slot_of(pick), self.job(pick)
        ask = WORK.ask(WORK.get(job.run.pk))
        if ask or job.rests:
            if ask != "drop":
                self.write(job)
            self.gone(slot, "stopped")

    @precondition(lambda self: self.jobs)
    @rule(pick=PICK)
    def finish(self, pick):
        slot, job = self.slot_of(pick), self.job(pick)
        self.step(job, STEPS)
        self.write(job, final=not job.rests)
        self.gone(slot, "stopped" if job.rests else "finished")
        advance_all()

    @precondition(lambda self: self.jobs)
    @rule(pick=PICK, how=st.sampled_from(["lost", "out of memory", "shut down", *CODES]))
    def break_off(self, pick, how):
        """The job dies without a word, is ended by the kernel, is asked to leave by nobody's wish, or fails."""
        slot, job = self.slot_of(pick), self.job(pick)
        if how in CODES:
            say(job.run, job.attempt, failure(how))
            self.gone(slot, "failed")
        elif how == "shut down":
            self.write(job)
            self.gone(slot, "stopped")
        else:
            self.gone(slot, "lost", exit={"signal": 9, "oom_kill": how == "out of memory"})

    @precondition(lambda self: self.jobs)
    @rule(pick=PICK)
    def kill_the_worker(self, pick):
        """The next worker adopts the job; the one that drove it before can write nothing more."""
        slot = self.slot_of(pick)
        zombie = Lease.objects.get(pk=self.jobs[slot].attempt.lease_id)
        adopted = claims.adopt("cpu", slot)
        assert adopted.pk == self.jobs[slot].attempt.pk
        self.jobs[slot].attempt = adopted
        for what in (claims.lock, claims.renew):
            with pytest.raises(LeaseLost):
                what(zombie)

    @precondition(lambda self: self.jobs)
    @rule(pick=PICK, hours=st.sampled_from([-2, 2]))
    def lose_job_and_worker(self, pick, hours):
        """Nobody comes back for the job that died, and the clock may have been set: the reconciler settles it."""
        slot = self.slot_of(pick)
        job = self.jobs.pop(slot)
        Lease.objects.filter(pk=job.attempt.lease_id).update(expires_at=clock.now() - timedelta(hours=hours))
        control.reap()
        with pytest.raises(LeaseLost):
            claims.renew(Lease.objects.get(pk=job.attempt.lease_id))

    @rule(pick=PICK)
    def flip_a_bit(self, pick):
        snapshot = self.snapshot(pick)
        path = queries.folder_of_snapshot(snapshot) / "optimizer.pt"
        if path.exists():
            path.write_bytes(b"another" + path.read_bytes())
            self.damaged.add(str(path.parent))

    # What always holds -----------------------------------------------------------------------------------------------

    @invariant()
    def the_rows_of_each_run_agree(self):
        for run in self.each():
            problems = [problem for check in check_records(run) for problem in check.problems]
            assert not problems, problems

    @invariant()
    def a_slot_is_held_exactly_by_an_active_run(self):
        held = dict(Lease.objects.filter(released_at=None).values_list("slot", "holder_id"))
        assert held == {slot: job.attempt.holder_id for slot, job in self.jobs.items()}
        assert sorted(held.values()) == sorted(run.pk for run in self.each() if run.phase in PHASES.active)
        assert Attempt.objects.filter(holder_id__in=self.runs, ended_at=None).count() == len(held)

    @invariant()
    def an_end_is_final(self):
        for run in self.each():
            assert self.ended.setdefault(run.pk, run.phase) == run.phase if run.phase in PHASES.terminal \
                else run.pk not in self.ended

    @invariant()
    def no_save_that_somebody_needs_is_gone(self):
        for run in self.each():
            if run.phase in PHASES.open and run.pk in self.whole:
                newest = queries.newest_restorable(run).first()
                assert newest is not None and newest.step == self.whole[run.pk], "its newest save is gone"

    @invariant()
    def what_an_open_branch_starts_from_is_kept(self):
        for run in self.each().exclude(source_snapshot=None):
            if run.phase in PHASES.open:
                started = {WEIGHTS} if run.restore_mode == "weights" else {WEIGHTS, TRAINING_STATE}
                assert started <= {*kinds_of(run.source_snapshot)}, "a branch's source is gone"

    @invariant()
    def a_run_that_rests_holds_nothing_and_says_where_it_goes_on(self):
        for run in self.each():
            if run.phase == "PAUSED":
                assert run.pause["resourcesReleased"]
                assert run.pause["savedStep"] == self.whole.get(run.pk)

    @invariant()
    def a_run_whose_plan_pauses_rests_at_that_save_once_and_not_behind_it(self):
        for run in self.each().exclude(pause_at_step=None):
            pauses = [*(event.data["pause"] for event in queries.events_of(run).filter(data__has_key="pause")),
                      *([run.pause] if run.phase == "PAUSED" else [])]
            assert len([pause for pause in pauses if pause["requestedBy"] == "plan"]) <= 1, "it rested twice"
            is_there = max(run.observed_step, self.whole.get(run.pk, 0)) > run.pause_at_step or (
                self.whole.get(run.pk) == run.pause_at_step and run.phase == "AWAITING_CAPACITY")
            assert not is_there or any((pause["savedStep"] or 0) >= run.pause_at_step for pause in pauses), \
                "it did not rest"

    # How it is done --------------------------------------------------------------------------------------------------

    def each(self):
        return queries.all_runs().filter(pk__in=self.runs)

    def run(self, pick):
        return Run.objects.get(pk=self.runs[pick % len(self.runs)])

    def slot_of(self, pick):
        return sorted(self.jobs)[pick % len(self.jobs)]

    def job(self, pick):
        return self.jobs[self.slot_of(pick)]

    def snapshot(self, pick):
        found = Snapshot.objects.filter(run__in=self.runs).order_by("created_at", "pk").select_related("run__workload")
        return found[pick % found.count()]

    def ask(self, run, what):
        """An operator's wish. One that is refused changes nothing of the run."""
        before = Run.objects.filter(pk=run.pk).values().get()
        try:
            return what(run)
        except OperationError:
            assert Run.objects.filter(pk=run.pk).values().get() == before
            return None

    def step(self, job, last):
        while job.step < last and not job.rests:
            job.step += 1
            say(job.run, job.attempt, metrics(job.step))

    def write(self, job, *, state=True, final=False):
        """A save at the update the job is at, unless it has one already or has trained nothing."""
        if job.step and job.step not in job.saved:
            job.saved.add(job.step)
            whole = state or final
            say(job.run, job.attempt, save(job.attempt, job.step, state=whole, final=final))
            if whole:
                self.whole[job.run.pk] = max(job.step, self.whole.get(job.run.pk, 0))

    def gone(self, slot, outcome, **options):
        """The job's process is gone; its worker settles the attempt and frees the slot."""
        job = self.jobs.pop(slot)
        end(job.run, job.attempt, outcome, **options)

    def bring_to_an_end(self):
        """Whatever was done: jobs that end and cancels that are carried out leave no run open and no slot held."""
        for slot in list(self.jobs):
            self.gone(slot, "lost", exit={"signal": 9})
        for run in self.each():
            self.ask(run, lambda row: cancel_run(row, actor=LOCAL))
        advance_all()
        assert not [run.phase for run in self.each() if run.phase in PHASES.open]
        assert not Lease.objects.filter(released_at=None).exists()
        self.read_every_file()

    def read_every_file(self):
        """What is kept is whole, but for the files that this machine damaged."""
        lost = {problem for run in self.each() for check in check_files(run) for problem in check.problems}
        assert len(lost) <= len(self.damaged), lost
        assert all("optimizer.pt is not what the manifest says" in problem for problem in lost), lost


@pytest.mark.django_db
def test_no_order_of_what_happens_to_runs_breaks_them(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    make_device(slots=SLOTS)
    cancel_run(make_run(), actor=LOCAL)  # its dataset and base model are there for all the others
    orders = int(os.environ.get("OPTIMIZE_TEST_ORDERS", "0"))
    chosen = settings(max_examples=orders or 7, stateful_step_count=60 if orders else 30, deadline=None,
                      derandomize=not orders, database=None, print_blob=True, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Runs, settings=chosen)
