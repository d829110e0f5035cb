"""Whatever interrupts a run, and wherever: the adapter comes out with the bytes of the undisturbed run."""

import itertools
import json
import os
from pathlib import Path

import jobs
import pytest
import tiny
from optimize_child.saves import saving
from optimize_child.saves.snapshots import FILES, MANIFESTS, verify_kind

pytestmark = pytest.mark.filterwarnings("ignore")
EPOCHS = 3
UPDATES = 9


@pytest.fixture(scope="module")
def plan(base_model, tmp_path_factory):
    """Ten rows, four an update, three epochs: nine updates, the last of each epoch a partial one."""
    path = tmp_path_factory.mktemp("rows") / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in tiny.ticket_rows(10)))
    return tiny.sft_plan(
        base_model,
        [path],
        **{
            "config.hyperparams.training.epochs": EPOCHS,
            # Dropout, so that the generators' states matter as well.
            "config.hyperparams.lora.dropout": 0.1,
            "config.hyperparams.scheduler.kind": "cosine",
            "config.hyperparams.scheduler.warmupRatio": 0.2,
            "execution.saveEvery": 1,
        },
    )


@pytest.fixture(scope="module")
def undisturbed(plan, tmp_path_factory):
    """The run that nothing interrupts."""
    return jobs.run(tmp_path_factory.mktemp("undisturbed") / "a", plan)


def resumed(plan, attempt: Path, folder: Path) -> Path:
    """A second attempt from what the first one left."""
    return jobs.run(folder, {**plan, "resume": jobs.newest_snapshot(attempt), "first_attempt": False})


@pytest.mark.parametrize("step", range(1, UPDATES))
def test_f19_a_run_stopped_after_any_update_goes_on_to_the_same_bytes(plan, undisturbed, tmp_path, monkeypatch, step):
    monkeypatch.setattr("optimize_child.control.Control.reason_to_leave", _leave_after(tmp_path / "first", step))
    first = jobs.run(tmp_path / "first", plan)
    monkeypatch.undo()
    assert tiny.read_events(first)[-1]["type"] == "stopped"
    assert tiny.read_events(first)[-1]["step"] == step
    second = resumed(plan, first, tmp_path / "second")
    # F21: the first update after the interruption is the one the undisturbed run made there.
    for figure in ("loss", "grad_norm", "learning_rate", "epoch"):
        assert jobs.metrics(first, figure) + jobs.metrics(second, figure) == jobs.metrics(undisturbed, figure)
    assert jobs.adapter_bytes(second) == jobs.adapter_bytes(undisturbed)


def _leave_after(attempt: Path, step: int):
    def reason(_self):
        return (
            "stop"
            if (attempt / "events.jsonl").read_bytes().count(b'"metrics"') >= step - 1 and _trained(attempt)
            else None
        )

    def _trained(attempt: Path) -> bool:
        return step > 1 or b'"name": "training"' in (attempt / "events.jsonl").read_bytes()

    return reason


def test_a_run_asked_to_stop_saves_and_leaves_at_the_next_boundary(plan, tmp_path):
    attempt = jobs.prepare(tmp_path / "a", {**plan, "execution": {"gpus": 1, "saveEvery": None}})
    jobs.control(attempt)
    from optimize_child import job
    from optimize_child.training import trainer

    honest = trainer.SupervisedTrainer.log

    def stop_after_two(self, logs, *rest):
        honest(self, logs, *rest)
        if self.state.global_step == 2:
            jobs.control(attempt, ask="stop")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer.SupervisedTrainer, "log", stop_after_two)
        assert job.main(attempt) == 0
    assert tiny.read_events(attempt)[-1] | {"t": 0} == {
        "v": 1, "t": 0, "type": "stopped", "reason": "stop", "step": 3,
    }  # fmt: skip
    assert [event["step"] for event in tiny.events_of(attempt, "snapshot")] == [3]


def test_a_run_that_its_plan_pauses_saves_there_and_goes_on_to_the_same_bytes(plan, undisturbed, tmp_path):
    first = jobs.run(tmp_path / "first", {**plan, "execution": {"gpus": 1, "saveEvery": None}, "pause_at": 4})
    last = tiny.read_events(first)[-1]
    assert (last["type"], last["reason"], last["step"]) == ("stopped", "pause", 4)
    assert [event["step"] for event in tiny.events_of(first, "snapshot")] == [4]
    assert jobs.adapter_bytes(resumed(plan, first, tmp_path / "second")) == jobs.adapter_bytes(undisturbed)


def test_a_run_asked_to_drop_what_it_has_not_saved_leaves_without_a_save(plan, tmp_path):
    attempt = jobs.prepare(tmp_path / "a", {**plan, "execution": {"gpus": 1, "saveEvery": 3}})
    jobs.control(attempt)
    from optimize_child import job
    from optimize_child.training import trainer

    honest = trainer.SupervisedTrainer.log

    def drop_after_three(self, logs, *rest):
        honest(self, logs, *rest)
        if self.state.global_step == 3:
            jobs.control(attempt, ask="drop")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer.SupervisedTrainer, "log", drop_after_three)
        job.main(attempt)
    last = tiny.read_events(attempt)[-1]
    assert (last["type"], last["reason"], last["step"]) == ("stopped", "drop", 4)
    assert [event["step"] for event in tiny.events_of(attempt, "snapshot")] == [3]


def test_a_job_told_to_stop_before_it_trains_leaves_without_a_snapshot(plan, tmp_path):
    attempt = jobs.prepare(tmp_path / "a", plan)
    jobs.control(attempt, ask="stop")
    from optimize_child import job

    job.main(attempt)
    assert tiny.read_events(attempt)[-1]["type"] == "stopped"
    assert not (attempt / "snapshots").exists()


def test_a_run_killed_after_its_final_snapshot_carries_it_over(plan, undisturbed, tmp_path):
    second = resumed(plan, undisturbed, tmp_path / "second")
    assert jobs.adapter_bytes(second) == jobs.adapter_bytes(undisturbed)
    assert not tiny.events_of(second, "metrics")


def test_a_run_without_a_snapshot_starts_again_to_the_same_bytes(plan, undisturbed, tmp_path):
    again = jobs.run(tmp_path / "again", {**plan, "first_attempt": False})
    assert jobs.adapter_bytes(again) == jobs.adapter_bytes(undisturbed)


@pytest.mark.requirement("R165")
def test_snapshots_stand_at_every_save_and_epoch_end(undisturbed, plan, tmp_path):
    assert saved_and_skipped(undisturbed) == (list(range(1, UPDATES + 1)), {3, 6, 9})
    sparse = jobs.run(tmp_path / "sparse", {**plan, "execution": {"gpus": 1, "saveEvery": 2}})
    assert saved_and_skipped(sparse) == ([2, 3, 4, 6, 8, 9], {3, 6, 9})
    off = jobs.run(tmp_path / "off", {**plan, "execution": {"gpus": 1, "saveEvery": None}})
    assert [event["step"] for event in tiny.events_of(off, "snapshot")] == [UPDATES]


@pytest.mark.requirement("R167", "R277", "R279", "R280")
def test_on_a_slow_disk_the_plan_says_how_often_a_state_is_written_and_epochs_ends_stand_whole(written_late, plan):
    execution = {"gpus": 1, "saveEvery": 1, "resumableSaveEvery": 2, "resumableSaveMinutes": 60}
    attempt = written_late({**plan, "execution": execution, "total_steps": 8}, drained=True)
    kept = {event["step"]: event["trainingState"] for event in tiny.events_of(attempt, "snapshot")}
    assert kept == {3: True, 5: True, 6: True, 7: False, 8: True}
    alone = {path.name for path in (attempt / "snapshots" / "step-7").iterdir()}
    assert alone == {*FILES["weights"], MANIFESTS["weights"]}
    execution["resumableSaveMinutes"] = 1e-9
    often = written_late({**plan, "execution": execution, "total_steps": 3}, drained=True)
    assert [event["trainingState"] for event in tiny.events_of(often, "snapshot")] == [True, False, True]


@pytest.mark.requirement("R278")
def test_a_run_that_pauses_on_a_slow_disk_writes_only_its_newest_save(written_late, plan):
    attempt = written_late({**plan, "pause_at": 5})
    assert [event["step"] for event in tiny.events_of(attempt, "snapshot")] == [5]
    assert tiny.events_of(attempt, "saves")[-1] | {"t": 0} == {"v": 1, "t": 0, "type": "saves", "waiting": 0,
                                                               "skipped": 4}  # fmt: skip


@pytest.fixture
def written_late(tmp_path, monkeypatch):
    """Runs a plan on a disk that takes no save before the training is over; with `drained`, all that wait by then."""
    soon, over, number = saving.Saver._next, saving.Saver.finish, itertools.count()

    def run(plan, *, drained=False):
        def late(self):
            with self._changed:
                self._changed.wait_for(lambda: self._ending or getattr(self, "is_drained", False))
            return soon(self)

        def finish(self, **how):
            with self._changed:
                self.is_drained = drained
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._error or not (drained and self._queue.waiting))
            over(self, **how)

        monkeypatch.setattr(saving.Saver, "_next", late)
        monkeypatch.setattr(saving.Saver, "finish", finish)
        return jobs.run(tmp_path / f"late-{next(number)}", plan)

    return run


def saved_and_skipped(attempt: Path) -> tuple[list[int], set[int]]:
    """The steps that were captured, and those of them that stand whole: epochs' ends and the newest always do.

    A save that is skipped because newer ones came leaves no event of its own; its number is told.
    """
    found = tiny.events_of(attempt, "snapshot")
    told = [event["skipped"] for event in tiny.events_of(attempt, "saves")]
    every = plan_steps(attempt)
    assert len(found) + (told[-1] if told else 0) == len(every)
    return every, {event["step"] for event in found if event["trainingState"]} & {3, 6, 9}


def plan_steps(attempt: Path) -> list[int]:
    every = json.loads((attempt / "plan.json").read_text())["execution"]["saveEvery"]
    return [step for step in range(1, UPDATES + 1) if step % every == 0 or step % 3 == 0]


def copy_of(snapshot: dict, folder: Path) -> dict:
    """A snapshot that a test may damage."""
    import shutil

    shutil.copytree(snapshot["folder"], folder)
    return {**snapshot, "folder": str(folder)}


@pytest.mark.parametrize("name", ["optimizer.pt", "adapter_model.safetensors", "rng_state.pth"])
def test_a_snapshot_with_one_changed_byte_is_refused_before_it_is_loaded(plan, undisturbed, tmp_path, name):
    damaged = copy_of({**jobs.newest_snapshot(undisturbed), "step": UPDATES}, tmp_path / "step-9")
    data = bytearray((tmp_path / "step-9" / name).read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "step-9" / name).write_bytes(data)
    attempt = jobs.run(tmp_path / "a", {**plan, "resume": damaged})
    failed = jobs.failure(attempt)
    assert failed["code"] == "snapshot_invalid"
    assert name in failed["reason"]


def test_a_manifest_that_was_written_anew_is_not_the_recorded_one(plan, undisturbed, tmp_path):
    forged = copy_of(jobs.newest_snapshot(undisturbed), tmp_path / "step-9")
    path = tmp_path / "step-9" / MANIFESTS["trainingState"]
    path.write_text(json.dumps(json.loads(path.read_text())))
    failed = jobs.failure(jobs.run(tmp_path / "a", {**plan, "resume": forged}))
    assert "not the one that was recorded" in failed["reason"]


def test_a_snapshot_of_other_data_is_refused(plan, undisturbed, tmp_path):
    resume = {"folder": str(undisturbed / "snapshots" / "step-3"), "step": 3}
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps(row) + "\n" for row in tiny.ticket_rows(12)))
    changed = {**plan, "dataset": {**plan["dataset"], "files": [str(other)]}, "resume": resume}
    failed = jobs.failure(jobs.run(tmp_path / "a", changed))
    assert failed["code"] == "snapshot_invalid"
    assert "rows was 10 and is 12" in failed["reason"] or "sequences was 10 and is 12" in failed["reason"]


def test_a_half_written_snapshot_has_no_name(plan, tmp_path, monkeypatch):
    from optimize_child.training import trainer

    def full_disk(*_args, **_kwargs):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(trainer.torch, "save", full_disk)
    attempt = jobs.run(tmp_path / "a", plan)
    assert jobs.failure(attempt)["code"] == "disk_full"
    assert not list((attempt / "snapshots").glob("step-*"))


def test_every_file_of_a_snapshot_is_in_its_manifest(undisturbed):
    snapshot = jobs.newest_snapshot(undisturbed)
    folder = Path(snapshot["folder"])
    weights = verify_kind(folder, "weights", manifest_sha256=snapshot["manifest_sha256"], step=UPDATES)
    state = verify_kind(folder, "trainingState", manifest_sha256=snapshot["state_manifest_sha256"], step=UPDATES)
    assert {*weights["files"], *state["files"], *MANIFESTS.values()} == {path.name for path in folder.iterdir()}
    assert (weights["run"], weights["attempt"]) == ("b" * 64, "a" * 64)
