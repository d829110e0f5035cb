"""One worker for every device, pinned to it."""

import json
from pathlib import Path

import pytest

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
    control.advance_everything()
    assert done == ["step", "reap", "tidy", "ring"]
