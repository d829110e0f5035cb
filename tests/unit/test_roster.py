"""One worker for every slot of every device, each pinned to its own."""

import json
from pathlib import Path

import pytest

from optimize_site.appliance.places import Places
from optimize_site.appliance.roster import device_services
from optimize_site.kernel.doorbell import device_queue, slot_of

GPUS = {"gpus": [{"uuid": f"GPU-{letter}", "name": "NVIDIA H200", "memory_bytes": 141 * 1024**3} for letter in "ab"]}


@pytest.mark.requirement("R006", "R009")
def test_two_gpus_and_the_processors_have_a_worker_for_each_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = tmp_path / "nvml.json"
    fake.write_text(json.dumps(GPUS))
    monkeypatch.setenv("OPTIMIZE_FAKE_NVML", str(fake))
    workers = {service.name: service for service in device_services(Places(tmp_path / "home"))}
    assert set(workers) == {"device/GPU-a/0", "device/GPU-b/0", "device/cpu/0", "device/cpu/1", "device/host"}
    assert workers["device/GPU-a/0"].env["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert workers["device/cpu/0"].env["CUDA_VISIBLE_DEVICES"] == ""
    assert "device.GPU-b.0" in workers["device/GPU-b/0"].command


def test_the_host_s_slots_share_one_worker_that_serves_them_side_by_side(tmp_path: Path):
    workers = {service.name: service for service in device_services(Places(tmp_path / "home"))}
    host = workers["device/host"]
    assert (host.env["OPTIMIZE_SLOTS"], host.env["CUDA_VISIBLE_DEVICES"]) == ("0,1", "")
    assert "device.host.0,device.host.1" in host.command
    assert host.command[host.command.index("--pool"):][:4] == ["--pool", "threads", "--concurrency", "2"]
    assert "solo" in workers["device/cpu/0"].command


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
