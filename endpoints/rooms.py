"""On which device slots judges may stand, so that a judge never takes the last slot its own holder waits for."""

from collections import Counter, defaultdict

from endpoints import phases
from endpoints.errors import NoRoomForJudges
from endpoints.models import Judge
from optimize_site.kernel.models import Device


def slots_by_profile() -> dict[str, int]:
    """The slots of the present devices that hold models, by profile, accelerators first."""
    counts: Counter[str] = Counter()
    devices = list(Device.objects.for_models().filter(is_present=True).order_by("index"))
    for device in sorted(devices, key=lambda device: device.kind == "cpu"):
        counts[device.profile] += device.slots
    return dict(counts)


def room_for(count: int, *, beside: str = "", devices: int = 0) -> str:
    """The profile whose slots hold so many judges, with `devices` of the profile `beside` left to their holder.

    The holder's own profile where it has the room, else the first that does. Raises NoRoomForJudges.
    """
    slots = slots_by_profile()
    if slots.get(beside, 0) >= count + devices:
        return beside
    found = next((profile for profile, have in slots.items() if profile != beside and have >= count), None)
    if found is not None:
        return found
    judges = "1 judge" if count == 1 else f"{count} judges"
    needs = f"{judges} beside the {devices} {beside} device{'' if devices == 1 else 's'} of the run" if devices else \
        judges
    have = ", ".join(f"{number} of {profile}" for profile, number in slots.items()) or "none"
    raise NoRoomForJudges(f"This box has no device slot for {needs}: it has {have}.",
                          hint="Score with a rule, a bundle or a service, or add a device.")


def startable(profile: str) -> list[str]:
    """The waiting judges of a profile that may start: those of one holder only where all of them fit at once.

    Holders whose judges have begun come first, then the ones that asked first. Were it otherwise, two holders could
    each hold half of what they need and wait for the other for ever.
    """
    holders: defaultdict[tuple[str, str], list[Judge]] = defaultdict(list)
    for row in Judge.objects.filter(profile=profile, ended_at=None).order_by("created_at"):
        holders[row.holder_kind, row.holder_id].append(row)
    free, found = slots_by_profile().get(profile, 0), []
    for judges in sorted(holders.values(), key=lambda rows: not _has_begun(rows)):
        if not _has_begun(judges) and len(judges) + max(row.leaves for row in judges) > free:
            continue
        free -= len(judges)
        found += [row.pk for row in judges if row.phase == phases.AWAITING_CAPACITY]
    return found


def _has_begun(judges: list[Judge]) -> bool:
    return any(row.phase in phases.JUDGE.active for row in judges)
