"""What the box publishes at /metrics, read from the rows when asked."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from optimize_site.kernel.models import Device, Lease

Family = Callable[[], Iterable[Metric]]
FAMILIES: list[Family] = []
REGISTRY = CollectorRegistry()


class Rows(Collector):
    """Collects every family that an app added to FAMILIES."""

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            yield from family()


def device_slots() -> Iterator[Metric]:
    """Declared and held slots of each device, by UUID."""
    declared = GaugeMetricFamily("optimize_device_slots", "Slots a device declares", labels=["uuid", "profile"])
    held = GaugeMetricFamily("optimize_device_slots_held", "Slots held by work", labels=["uuid", "profile"])
    for device in Device.objects.for_models().filter(is_present=True):
        labels = [device.uuid, device.profile]
        declared.add_metric(labels, device.slots)
        held.add_metric(labels, Lease.objects.filter(device=device, released_at=None).count())
    yield declared
    yield held


FAMILIES.append(device_slots)
REGISTRY.register(Rows())
