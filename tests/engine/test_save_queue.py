"""What is saved, how much of it and in which order, when saves come faster than the disk takes them."""

import threading

import pytest
from optimize_child.saves.save_queue import Save, SaveQueue
from optimize_child.saves.saving import Saver


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def queue(clock, *, every=10, minutes=5.0):
    return SaveQueue(every=every, minutes=minutes, clock=clock)


def put(waiting, *steps, **kind):
    for step in steps:
        waiting.put(Save(step, f"weights {step}", f"state {step}", **kind))


def shown(waiting):
    return [(save.step, save.is_whole) for save in waiting.waiting]


@pytest.mark.requirement("R277")
def test_a_save_with_a_newer_one_behind_it_is_weights_alone(clock):
    waiting = queue(clock)
    put(waiting, 1, 2, 3)
    assert shown(waiting) == [(1, False), (2, False), (3, True)]


@pytest.mark.requirement("R279")
def test_the_newest_save_and_each_epochs_stand_whole(clock):
    waiting = queue(clock)
    put(waiting, 1)
    put(waiting, 2, epoch_end=True)
    put(waiting, 3, 4)
    assert shown(waiting) == [(1, False), (2, True), (3, False), (4, True)]


@pytest.mark.requirement("R280", "R167")
def test_a_state_is_written_after_so_many_saves_and_what_waits_before_it_is_skipped(clock):
    waiting = queue(clock, every=3)
    put(waiting, 1, 2, 3, 4)
    assert shown(waiting) == [(3, True), (4, True)]
    assert waiting.skipped == 2


@pytest.mark.requirement("R280", "R167")
def test_a_state_is_written_after_so_many_minutes(clock):
    waiting = queue(clock, minutes=5)
    put(waiting, 1)
    first = waiting.take()
    clock.now = 60
    waiting.wrote(first)
    put(waiting, 2, 3)
    assert shown(waiting) == [(2, False), (3, True)]
    clock.now = 60 + 299
    put(waiting, 4)
    assert shown(waiting) == [(2, False), (3, False), (4, True)], "they count from the end of the last writing"
    clock.now = 60 + 300
    put(waiting, 5)
    assert shown(waiting) == [(4, True), (5, True)]


@pytest.mark.requirement("R280")
def test_an_epochs_save_is_not_skipped_for_a_state_that_is_due(clock):
    waiting = queue(clock, every=2)
    put(waiting, 1, epoch_end=True)
    put(waiting, 2, 3, 4)
    assert (1, True) in shown(waiting)


@pytest.mark.requirement("R278")
def test_a_run_that_pauses_skips_all_that_waits_before_its_newest_save(clock):
    waiting = queue(clock)
    put(waiting, 1)
    put(waiting, 2, epoch_end=True)
    put(waiting, 3)
    assert [save.step for save in waiting.rest(keep_epochs=False)] == [1, 2]
    assert shown(waiting) == [(3, True)]


def test_a_run_that_ends_keeps_its_epochs_saves(clock):
    waiting = queue(clock)
    put(waiting, 1)
    put(waiting, 2, epoch_end=True)
    put(waiting, 3)
    waiting.rest(keep_epochs=True)
    assert shown(waiting) == [(2, True), (3, True)]


class Disk:
    """Writes when it is let."""

    def __init__(self):
        self.written, self.gone, self.told = [], [], []
        self.open = threading.Event()
        self.error = None

    def write(self, save):
        self.open.wait(10)
        if self.error:
            raise self.error
        self.written.append((save.step, save.is_whole))

    def saver(self, clock):
        return Saver(queue(clock), write=self.write, discard=lambda save: self.gone.append(save.step),
                     report=lambda waiting, skipped: self.told.append((waiting, skipped)))  # fmt: skip


@pytest.mark.requirement("R277", "R282")
def test_training_goes_on_while_the_disk_is_slow_and_the_newest_save_stands_in_the_end(clock):
    disk = Disk()
    saver = disk.saver(clock)
    for step in (1, 2, 3):
        saver.submit(Save(step, "w", "s"))
    assert disk.written == []
    disk.open.set()
    saver.finish(keep_epochs=True)
    assert disk.written[-1] == (3, True)
    assert {step for step, _ in disk.written} | set(disk.gone) == {1, 2, 3}
    assert disk.told[-1] == (0, len(disk.gone))


def test_what_goes_wrong_while_saving_ends_the_training_at_its_next_boundary(clock):
    disk = Disk()
    disk.error = OSError(28, "full")
    disk.open.set()
    saver = disk.saver(clock)
    saver.submit(Save(1, "w", "s"))
    with pytest.raises(OSError, match="full"):
        saver.finish(keep_epochs=True)
    with pytest.raises(OSError, match="full"):
        saver.submit(Save(2, "w", "s"))


def test_a_job_that_saved_nothing_has_nothing_to_wait_for(clock):
    Disk().saver(clock).finish(keep_epochs=True)
