"""Whoever takes a run out of a phase dies before that is committed, at each phase in turn.

Another one takes it out, nothing is done twice, and who was replaced writes nothing more."""

import json
import time
from datetime import timedelta

import pytest

from endpoints.operations.judges import advance_judges
from gpu_worker import claims, control
from gpu_worker.drive import Driver
from gpu_worker.errors import LeaseLost
from optimize_site.kernel import clock, events
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.models import Attempt, Event, Lease
from runs.models import Metric, Run
from runs.operations import advance_run, pause_run, resume_run
from runs.phases import PHASES
from runs.verify_files import check_files
from runs.verify_records import check_records
from tests.factories import TINY, claim_job, make_base_model, make_device, make_run, put_weights, tell_job
from tests.playing import STARTED, metrics, phases_of, save, stage

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]
STEPS, PAUSED_AT = 6, 3
PASSED = ["RESOLVING_DATASET", "AWAITING_BASE_MODEL", "AWAITING_CAPACITY", "STARTING_JOB", "QUEUED", "PREPARING",
          "TRAINING", "PAUSING", "PAUSED", "RECORDING", "CLEANING_UP"]
JUDGED = ["DEPLOYING_GRADER", "AWAITING_GRADER"]


class Killed(BaseException):
    """The process that meets it does nothing more."""


class Box:
    """A run, its worker, and what its job wrote; whoever dies is replaced by another one who tries the same."""

    def __init__(self):
        make_device()
        self.run_id, self.worker, self.deaths = make_run().pk, None, []

    @property
    def run(self):
        return Run.objects.get(pk=self.run_id)

    def do(self, act):
        phase, before = self.run.phase, self.rows()
        try:
            act()
        except Killed as death:
            self.deaths.append(str(death))
            assert self.run.phase == str(death)
            assert self.rows() == before or self.run.phase != phase, "half of it was kept"
            self.replace_worker()
            self.do(act)

    def rows(self):
        """All that a step may change, but for the time at which a lease was last held."""
        return [list(rows.order_by("pk")) for rows in (
            Run.objects.values(), Attempt.objects.values(), Metric.objects.values(),
            Event.objects.filter(subject_kind="run").values(), Lease.objects.values("id", "token", "released_at"))]

    def replace_worker(self):
        """The slot's next worker adopts what is held; the one before wakes, and may do nothing."""
        if self.worker is None or not Lease.objects.filter(released_at=None).exists():
            return
        late, self.worker = self.worker, driver(claims.adopt("cpu", 0))
        with pytest.raises(LeaseLost):
            late._settle()

    # What happens ----------------------------------------------------------------------------------------------------

    def claim(self):
        self.worker = driver(claims.claim("cpu", 0))
        self.worker.folder.mkdir(parents=True, exist_ok=True)

    def say(self, *said):
        """The job writes, and its worker stores it."""
        with (self.worker.folder / "events.jsonl").open("a") as file:
            file.writelines(json.dumps({"v": 1, "t": time.time()} | event) + "\n" for event in said)
        self.do(lambda: self.worker.store_events())

    def begin(self):
        self.do(self.claim)
        self.worker._make_plan()
        self.say(STARTED)
        self.say(stage("tokenising", 1, 8))

    def play(self):
        self.do(lambda: advance_run(self.run_id))
        self.begin()
        self.say(*(metrics(step) for step in range(1, PAUSED_AT + 1)))
        pause_run(self.run, checkpoint="save", actor=LOCAL)
        self.do(lambda: self.worker._watch(0.0))
        self.say(save(self.worker.attempt, PAUSED_AT), {"type": "stopped", "reason": "pause", "step": PAUSED_AT})
        self.do(lambda: self.worker._settle())
        self.do(lambda: resume_run(self.run, actor=LOCAL))
        self.go_on()

    def go_on(self):
        self.begin()
        last = self.worker.attempt.resumed_step or 0
        self.say(*(metrics(step) for step in range(last + 1, STEPS + 1)), save(self.worker.attempt, STEPS, final=True),
                 {"type": "finished", "step": STEPS})
        self.do(lambda: self.worker._settle())
        self.do(lambda: advance_run(self.run_id))


def driver(attempt):
    return Driver(attempt, should_stop=lambda: False)


@pytest.fixture
def dies(monkeypatch):
    """Let whoever takes a run out of these phases die once at each, before it is committed."""
    honest = events.record

    def at(*phases):
        left = [*phases]

        def record(*arguments, data=None, **options):
            honest(*arguments, data=data, **options)
            if (phase := (data or {}).get("from")) in left:
                left.remove(phase)
                raise Killed(phase)

        monkeypatch.setattr(events, "record", record)
    return at


def holds(box, *, attempts):
    """The run completed as one that nothing happened to, and nothing is left of who worked on it."""
    run = box.run
    assert run.phase == "COMPLETED", (run.phase, run.failure_reason)
    figures = Metric.objects.filter(run=run).order_by("step")
    assert list(figures.values_list("step", flat=True)) == list(range(1, STEPS + 1))
    assert [attempt.number for attempt in Attempt.objects.order_by("number")] == list(range(1, attempts + 1))
    assert not Attempt.objects.filter(ended_at=None).exists() and not Lease.objects.filter(released_at=None).exists()
    assert not [problem for check in (*check_records(run), *check_files(run)) for problem in check.problems]


@pytest.mark.requirement("R016", "R178")
def test_a_process_that_dies_as_a_run_leaves_a_phase_costs_nothing_in_any_phase(dies):
    assert {*PASSED, *JUDGED} == PHASES.open
    box = Box()
    dies(*PASSED)
    box.play()
    assert box.deaths == PASSED
    holds(box, attempts=2)
    until_it_paused, resumed = PASSED[1:PASSED.index("RECORDING")], PASSED[1:PASSED.index("PAUSING")]
    assert phases_of(box.run) == [*until_it_paused, *resumed, "RECORDING", "CLEANING_UP", "COMPLETED"]


@pytest.mark.requirement("R016")
@pytest.mark.parametrize("phase", ["STARTING_JOB", "QUEUED", "PREPARING", "TRAINING", "PAUSING"])
def test_a_job_that_dies_in_a_phase_with_its_worker_is_settled_by_the_reconciler_once(dies, phase):
    box = Box()
    said = {"QUEUED": [STARTED], "PREPARING": [STARTED, stage("tokenising", 1, 8)]}.get(phase, [STARTED, metrics(1)])
    advance_run(box.run_id)
    box.claim()
    if phase != "STARTING_JOB":
        box.say(*said)
    if phase == "PAUSING":
        pause_run(box.run, checkpoint="save", actor=LOCAL)
        box.worker._watch(0.0)
    assert box.run.phase == phase
    Lease.objects.update(expires_at=clock.now() - timedelta(hours=1))
    dies(phase)
    with pytest.raises(Killed):
        control.reap()  # the reconciler dies over it too
    assert box.run.phase == phase
    Lease.objects.update(expires_at=clock.now() - timedelta(hours=1))
    control.reap()
    with pytest.raises(LeaseLost):
        box.worker._settle()
    if phase == "PAUSING":
        assert box.run.phase == "PAUSED"
        resume_run(box.run, actor=LOCAL)
    box.go_on()
    holds(box, attempts=2)


@pytest.mark.requirement("R016", "R185")
def test_processes_that_die_as_a_run_gets_its_judge_hold_the_judge_once(dies):
    make_device()
    put_weights(make_base_model())
    run = make_run(config={"method": "grpo", "reward": {"terms": [
        {"kind": "model", "model": TINY, "instructions": "Be strict."}]}})
    dies(*JUDGED)
    deaths = []

    def pass_over():
        """What the control worker does, and another one in the place of one that died."""
        for step in (lambda: advance_run(run.pk), advance_judges, lambda: advance_run(run.pk)):
            try:
                step()
            except Killed:
                deaths.append(Run.objects.get().phase)
                step()

    pass_over()
    judge = claim_job()
    pass_over()
    tell_job(judge, STARTED, {"type": "stage", "name": "judging", "done": 0})
    pass_over()
    assert (deaths, Run.objects.get().phase) == (JUDGED, "AWAITING_CAPACITY")
    assert phases_of(run)[-3:] == [*JUDGED, "AWAITING_CAPACITY"]
    assert Lease.objects.filter(released_at=None).get().holder_kind == "judge"
