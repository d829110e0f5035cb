"""The devices of this machine. The only module that speaks to NVML.

Run as a program it prints them as JSON, so that the supervisor need not load NVML itself.
"""

import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import pynvml

from optimize_site.kernel.catalog import load_catalog
from optimize_site.kernel.errors import OperationError

FAKE_VARIABLE = "OPTIMIZE_FAKE_NVML"
HOST_NAME = "Work without a device"


@dataclass(frozen=True)
class DeviceInfo:
    """One device that jobs can be given. The devices `cpu` and `host` always exist."""

    uuid: str
    node: str
    name: str
    kind: str
    profile: str
    index: int
    memory_bytes: int
    host_memory_bytes: int
    slots: int


@dataclass(frozen=True)
class DeviceSample:
    """What a device is doing now. None where the device cannot say."""

    memory_used_bytes: int
    memory_total_bytes: int
    utilisation_percent: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None


@dataclass(frozen=True)
class GpuFacts:
    """A GPU as NVML describes it."""

    uuid: str
    name: str
    memory_bytes: int


class Nvml(Protocol):
    """The part of NVML that we use."""

    def gpus(self) -> list[GpuFacts]:
        """The GPUs in NVML's order; empty where there is no driver."""

    def sample(self, uuid: str) -> DeviceSample:
        """What one GPU is doing; raises KeyError where it is gone."""


class RealNvml:
    """NVML through nvidia-ml-py."""

    def gpus(self) -> list[GpuFacts]:
        """The GPUs in NVML's order; empty where there is no driver. One that stopped answering is left out."""
        with _nvml_session() as count:
            return [facts for index in range(count) if (facts := _read_gpu(index))]

    def sample(self, uuid: str) -> DeviceSample:
        """What one GPU is doing; raises KeyError where it is gone."""
        with _nvml_session() as count:
            if not count:
                raise KeyError(uuid)
            try:
                return _read_sample(pynvml.nvmlDeviceGetHandleByUUID(uuid))
            except pynvml.NVMLError as error:
                raise KeyError(uuid) from error


class FakeNvml:
    """GPUs described by a JSON file, read again at each call so that a test can lose one.

    `{"gpus": [{"uuid", "name", "memory_bytes", "memory_used_bytes"?, "utilisation_percent"?, …}]}`
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def gpus(self) -> list[GpuFacts]:
        """The GPUs in the order of the file."""
        return [GpuFacts(gpu["uuid"], gpu["name"], gpu["memory_bytes"]) for gpu in self._read()]

    def sample(self, uuid: str) -> DeviceSample:
        """What the file says that the GPU is doing; raises KeyError where it is gone."""
        for gpu in self._read():
            if gpu["uuid"] == uuid:
                return DeviceSample(
                    memory_used_bytes=gpu.get("memory_used_bytes", 0),
                    memory_total_bytes=gpu["memory_bytes"],
                    utilisation_percent=gpu.get("utilisation_percent"),
                    power_watts=gpu.get("power_watts"),
                    temperature_celsius=gpu.get("temperature_celsius"),
                )
        raise KeyError(uuid)

    def _read(self) -> list[dict[str, Any]]:
        gpus: list[dict[str, Any]] = json.loads(self._path.read_text())["gpus"]
        return gpus


def nvml() -> Nvml:
    """The real NVML, or the fake one where OPTIMIZE_FAKE_NVML names its file."""
    path = os.environ.get(FAKE_VARIABLE)
    return FakeNvml(path) if path else RealNvml()


def list_devices(source: Nvml | None = None) -> list[DeviceInfo]:
    """Every device of this node: the GPUs first, then the CPU, then the host's slots for work without a device."""
    node, host_memory, catalog = platform.node(), _host_memory_bytes(), load_catalog()
    devices = []
    for index, gpu in enumerate((source or nvml()).gpus()):
        profile = catalog.profile_of(gpu.name)
        slots = catalog.slots_of(profile)
        devices.append(
            DeviceInfo(gpu.uuid, node, gpu.name, "gpu", profile, index, gpu.memory_bytes, host_memory, slots)
        )
    for index, (kind, name) in enumerate((("cpu", _cpu_name()), ("host", HOST_NAME)), start=len(devices)):
        slots = catalog.slots_of(kind)
        devices.append(DeviceInfo(kind, node, name, kind, kind, index, host_memory, host_memory, slots))
    return devices


def sample(uuid: str, source: Nvml | None = None) -> DeviceSample:
    """What a device is doing now; raises KeyError where it is gone."""
    return _cpu_sample() if uuid in {"cpu", "host"} else (source or nvml()).sample(uuid)


@contextmanager
def _nvml_session() -> Iterator[int]:
    """NVML, opened and closed; the number of GPUs, 0 where NVML cannot be opened."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield 0
        return
    try:
        yield int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()


def _read_gpu(index: int) -> GpuFacts | None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return GpuFacts(pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle), int(memory.total))
    except pynvml.NVMLError:
        return None


def _read_sample(handle: Any) -> DeviceSample:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return DeviceSample(
        memory_used_bytes=int(memory.used),
        memory_total_bytes=int(memory.total),
        utilisation_percent=_told(lambda: float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)),
        power_watts=_told(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
        temperature_celsius=_told(lambda: float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))),
    )


def _told(ask: Any) -> float | None:
    """A reading, or None from a GPU which does not offer it."""
    try:
        return float(ask())
    except pynvml.NVMLError:
        return None


def _cpu_sample() -> DeviceSample:
    facts = _meminfo()
    total = facts.get("MemTotal", 0)
    load = 100 * os.getloadavg()[0] / (os.cpu_count() or 1)
    return DeviceSample(total - facts.get("MemAvailable", 0), total, utilisation_percent=min(100.0, load))


def _host_memory_bytes() -> int:
    return _meminfo().get("MemTotal", 0)


def _meminfo() -> dict[str, int]:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}


def _cpu_name() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{found.group(1) if found else platform.machine()} ({os.cpu_count()} cores)"


def main() -> None:
    """Print the devices as JSON."""
    try:
        json.dump([asdict(device) for device in list_devices()], sys.stdout)
    except OperationError as error:
        sys.exit(f"{error.detail} {error.hint}")


if __name__ == "__main__":
    main()
