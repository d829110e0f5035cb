"""A process killed at any instant of a save leaves the whole save or none, and the next save is made beside it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import jobs
import pytest
import tiny
import torch
from optimize_child.saves import snapshots
from optimize_child.saves.captured import write_adapter

pytestmark = pytest.mark.filterwarnings("ignore")
STEP = 5
TOUCHING = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}


def fill(folder: Path) -> None:
    write_adapter({"a": torch.ones(3)}, {"r": 8}, folder)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.save({"state": torch.zeros(2)}, folder / name)
    for name in ("trainer_state.json", "position.json"):
        (folder / name).write_text("{}")


def save(attempt: Path) -> snapshots.Written:
    return snapshots.write_snapshot(attempt, STEP, fill, run="r", attempt_id="a")


def killed_at(attempt: Path, instant: int) -> bool:
    """Save in a process of its own that dies as it touches the disk for the `instant`th time; False where it lived."""
    pid = os.fork()
    if pid == 0:
        count = iter(range(1, 1_000_000))
        sys.addaudithook(lambda event, _: os.kill(os.getpid(), signal.SIGKILL)
                         if event in TOUCHING and next(count) == instant else None)  # fmt: skip
        save(attempt)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


@pytest.mark.requirement("R031")
def test_a_save_that_was_killed_at_any_touch_of_the_disk_is_whole_or_has_no_name(tmp_path):
    whole = save(tmp_path / "undisturbed")
    instant = 1
    while killed_at(attempt := tmp_path / str(instant), instant):
        folder = attempt / "snapshots" / f"step-{STEP}"
        if folder.exists():
            for kind, digest in whole.manifests.items():
                snapshots.verify_kind(folder, kind, manifest_sha256=digest, step=STEP)
        assert save(attempt).manifests == whole.manifests
        instant += 1
    assert instant > 15, "a save touched the disk less often than it has files"


@pytest.fixture
def small_disk(tmp_path):
    """A disk of a mebibyte, and a way to make it larger."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(*options):
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    if not mount("size=768k"):
        pytest.skip("nothing may be mounted here")
    yield folder, lambda: mount("remount", "size=64m")
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_the_job_in_a_sentence_and_with_space_it_goes_on_to_the_same_bytes(
    base_model, write_rows, tmp_path, small_disk
):
    disk, enlarge = small_disk
    plan = tiny.sft_plan(base_model, [write_rows(tiny.ticket_rows(32))], **{"execution.saveEvery": 1})
    undisturbed = jobs.run(tmp_path / "undisturbed", plan)
    first = jobs.run(disk / "first", plan)
    failed = jobs.failure(first)
    assert (failed["code"], "full" in failed["reason"]) == ("disk_full", True)
    assert enlarge()
    saved = jobs.newest_snapshot(first)
    assert saved is not None and saved["step"] < 8
    second = jobs.run(disk / "second", {**plan, "resume": saved, "first_attempt": False})
    assert jobs.adapter_bytes(second) == jobs.adapter_bytes(undisturbed)
