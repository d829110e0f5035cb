"""One worker for every device, pinned to it."""

import json
import time
from pathlib import Path

import pytest
from django.db import OperationalError

from optimize_site.appliance.places import Places
from optimize_site.appliance.roster import device_services
from optimize_site.kernel.doorbell import device_queue, slot_of

GPUS = {"gpus": [{"uuid": f"GPU-{letter}", "name": "NVIDIA H200", "memory_bytes": 141 * 1024**3} for letter in "ab"]}


@pytest.mark.requirement("R006", "R009")
def test_two_gpus_and_the_processors_have_a_worker_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = tmp_path / "nvml.json"
    fake.write_text(json.dumps(GPUS))
    monkeypatch.setenv("OPTIMIZE_FAKE_NVML", str(fake))
    workers = {service.name: service for service in device_services(Places(tmp_path / "home"))}
    assert set(workers) == {"device/GPU-a", "device/GPU-b", "device/cpu", "device/host"}
    assert workers["device/GPU-a"].env["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert workers["device/cpu"].env["CUDA_VISIBLE_DEVICES"] == ""
    assert "device.GPU-b.0" in workers["device/GPU-b"].command
    assert "solo" in workers["device/GPU-b"].command


@pytest.mark.parametrize("device", ["cpu", "host"])
def test_a_device_s_slots_share_its_worker_which_serves_them_side_by_side(tmp_path: Path, device: str):
    worker = {service.name: service for service in device_services(Places(tmp_path / "home"))}[f"device/{device}"]
    assert (worker.env["OPTIMIZE_SLOTS"], worker.env["CUDA_VISIBLE_DEVICES"]) == ("0,1", "")
    assert f"device.{device}.0,device.{device}.1" in worker.command
    assert worker.command[worker.command.index("--pool"):][:4] == ["--pool", "threads", "--concurrency", "2"]


def test_a_slot_is_never_served_twice_at_once(monkeypatch: pytest.MonkeyPatch):
    from gpu_worker import drive, tasks

    served = []

    def serve(device: str, slot: int, *, should_stop: object) -> None:
        served.append((device, slot))
        if len(served) == 1:
            tasks.serve_alone("host", 0)
            tasks.serve_alone("host", 1)

    monkeypatch.setattr(drive, "serve_slot", serve)
    tasks.serve_alone("host", 0)
    tasks.serve_alone("host", 0)
    assert served == [("host", 0), ("host", 1), ("host", 0)]
    assert slot_of(device_queue("GPU-a.b", 3)) == 3


def test_only_a_thorough_pass_tidies_up_and_rings_for_what_waits(monkeypatch: pytest.MonkeyPatch):
    from gpu_worker import control

    done: list[str] = []
    monkeypatch.setattr(control, "STEPS", (lambda: done.append("step"),))
    monkeypatch.setattr(control, "TENDING", (lambda: done.append("tidy"),))
    monkeypatch.setattr(control, "reap", lambda: done.append("reap"))
    monkeypatch.setattr(control, "ring_waiting", lambda: done.append("ring"))
    control.advance_everything(is_thorough=False)
    assert done == ["step", "reap"]
    done.clear()
    assert control.advance_everything()
    assert done == ["step", "reap", "tidy", "ring"]


def test_what_an_unreachable_database_kept_from_being_tidied_is_the_next_passs(monkeypatch: pytest.MonkeyPatch):
    """Not one half a minute later: whatever waits has no other bell."""
    from gpu_worker import control, tasks

    thorough: list[bool] = []
    answers = [OperationalError("the database system is starting up"), None, None, RuntimeError("one row's fault")]

    def tidy() -> None:
        if answer := answers.pop(0):
            raise answer

    def advance(*, is_thorough: bool) -> bool:
        thorough.append(is_thorough)
        return passed(is_thorough=is_thorough)

    passed = control.advance_everything
    for name in ("reap", "ring_waiting"):
        monkeypatch.setattr(control, name, lambda: None)
    monkeypatch.setattr(control, "STEPS", ())
    monkeypatch.setattr(control, "TENDING", (tidy,))
    monkeypatch.setattr(control, "advance_everything", advance)
    monkeypatch.setattr(tasks, "_thorough_at", 0.0)
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)
    for _ in range(3):
        tasks.advance()
    assert thorough == [True, True, False]
    assert passed() and passed(), "another fault is no reason to tidy up all the time"


def rung_three_times(monkeypatch: pytest.MonkeyPatch, *answers: bool) -> list[bool]:
    """What is left of the passes' answers, whether the database let them see, once three rings of one moment came."""
    from gpu_worker import control, tasks

    left = list(answers)
    monkeypatch.setattr(control, "advance_everything", lambda **_: left.pop(0))
    monkeypatch.setattr(tasks, "close_old_connections", lambda: None)
    monkeypatch.setattr(tasks, "_seen_at", 0.0)
    rung_at = time.monotonic()
    for _ in range(3):
        tasks.advance(rung_at)
    return left


def test_one_pass_answers_every_ring_from_before_it_began(monkeypatch: pytest.MonkeyPatch):
    """A hundred runs that are submitted at once ring a hundred times, and a pass looks at all that are open."""
    from gpu_worker import tasks

    answered = rung_three_times(monkeypatch, True, False, True)
    assert len(answered) == 2
    tasks.advance(time.monotonic())
    assert len(answered) == 1, "what is rung for after the pass began is looked at"
    tasks.advance()
    assert not answered, "the timer's ring is always answered"


def test_a_ring_is_not_answered_by_a_pass_that_the_database_did_not_let_see(monkeypatch: pytest.MonkeyPatch):
    assert not rung_three_times(monkeypatch, False, True)


def test_a_worker_that_starts_before_its_database_waits_for_it(monkeypatch: pytest.MonkeyPatch):
    """Its bell does not ring again: what its slot still holds would wait for the lease to run out."""
    from gpu_worker import claims, drive

    asked: list[str] = []

    def adopt(device: str, slot: int) -> None:
        asked.append("adopt")
        if len(asked) < 3:
            raise OperationalError("the database system is starting up")

    monkeypatch.setattr(claims, "adopt", adopt)
    monkeypatch.setattr(claims, "claim", lambda device, slot: asked.append("claim"))
    monkeypatch.setattr(drive, "close_old_connections", lambda: None)
    monkeypatch.setattr(drive.time, "sleep", lambda seconds: None)
    drive.serve_slot("cpu", 0, should_stop=lambda: False)
    assert asked == ["adopt", "adopt", "adopt", "claim"]
