"""One worker for every slot of every device, each pinned to its own."""

import json
from pathlib import Path

import pytest

from optimize_site.appliance.places import Places
from optimize_site.appliance.roster import device_services

GPUS = {"gpus": [{"uuid": f"GPU-{letter}", "name": "NVIDIA H200", "memory_bytes": 141 * 1024**3} for letter in "ab"]}


@pytest.mark.requirement("R006", "R009")
def test_two_gpus_and_the_processors_have_a_worker_for_each_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = tmp_path / "nvml.json"
    fake.write_text(json.dumps(GPUS))
    monkeypatch.setenv("OPTIMIZE_FAKE_NVML", str(fake))
    workers = {service.name: service for service in device_services(Places(tmp_path / "home"))}
    assert set(workers) == {"device/GPU-a/0", "device/GPU-b/0", "device/cpu/0", "device/cpu/1", "device/host/0",
                            "device/host/1"}
    assert workers["device/GPU-a/0"].env["CUDA_VISIBLE_DEVICES"] == "GPU-a"
    assert workers["device/cpu/0"].env["CUDA_VISIBLE_DEVICES"] == ""
    assert workers["device/host/0"].env["CUDA_VISIBLE_DEVICES"] == ""
    assert "device.GPU-b.0" in workers["device/GPU-b/0"].command
