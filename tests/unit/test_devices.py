"""The devices of a machine, real and made up."""

import json
from pathlib import Path

import pytest

from gpu_worker import devices
from gpu_worker.devices import FakeNvml, list_devices, sample


def described(path: Path, *gpus: dict) -> FakeNvml:
    path.write_text(json.dumps({"gpus": gpus}))
    return FakeNvml(str(path))


def gpu(number: int, name: str = "NVIDIA H200", **facts: object) -> dict:
    return {"uuid": f"GPU-{number}", "name": name, "memory_bytes": 141 * 1024**3, **facts}


@pytest.mark.requirement("R006")
def test_every_gpu_has_one_slot_and_the_cpu_two(tmp_path: Path) -> None:
    found = list_devices(described(tmp_path / "gpus.json", gpu(0), gpu(1, "NVIDIA L4")))
    assert [(d.uuid, d.kind, d.profile, d.index, d.slots) for d in found] == [
        ("GPU-0", "gpu", "h200", 0, 1),
        ("GPU-1", "gpu", "l4", 1, 1),
        ("cpu", "cpu", "cpu", 2, 2),
        ("host", "host", "host", 3, 2),
    ]
    assert found[0].memory_bytes == 141 * 1024**3
    assert found[2].memory_bytes == found[0].host_memory_bytes > 0


def test_a_machine_without_a_driver_has_the_cpu_and_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices.pynvml, "nvmlInit", _no_driver)
    assert [device.uuid for device in list_devices(devices.RealNvml())] == ["cpu", "host"]


def test_a_gpu_that_is_lost_is_seen_at_the_next_look(tmp_path: Path) -> None:
    path = tmp_path / "gpus.json"
    source = described(path, gpu(0), gpu(1))
    described(path, gpu(1))
    assert [device.uuid for device in list_devices(source)] == ["GPU-1", "cpu", "host"]
    with pytest.raises(KeyError):
        sample("GPU-0", source)


def test_the_fake_is_chosen_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described(tmp_path / "gpus.json", gpu(3, memory_used_bytes=7, utilisation_percent=50.0, power_watts=300.0))
    monkeypatch.setenv("OPTIMIZE_FAKE_NVML", str(tmp_path / "gpus.json"))
    assert list_devices()[0].uuid == "GPU-3"
    seen = sample("GPU-3")
    assert (seen.memory_used_bytes, seen.utilisation_percent, seen.power_watts) == (7, 50.0, 300.0)


def test_the_cpu_says_how_much_memory_is_used() -> None:
    seen = sample("cpu")
    assert 0 < seen.memory_used_bytes < seen.memory_total_bytes


def _no_driver() -> None:
    raise devices.pynvml.NVMLError_LibraryNotFound()
