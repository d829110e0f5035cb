"""Judges: appointed at admission, held for as long as their holder wants them, and given back by themselves."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from django.db import IntegrityError, transaction

from endpoints import phases
from endpoints.instructions import instructions_for
from endpoints.models import Judge
from endpoints.operations.work_steps import await_base, queue, send_back, usable_base
from endpoints.rooms import room_for, slots_by_profile
from optimize_site.kernel import doorbell, events
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.conf import home
from optimize_site.kernel.graders import Target
from optimize_site.kernel.judges import HOLDERS, Appointment, Held, State
from optimize_site.kernel.phases import move
from registry.model_queries import get_model, serving_of
from registry.models import Version

STATES: dict[str, State] = {phases.STARTING_JOB: "starting", phases.READY: "ready", phases.FAILED: "failed"}


class JudgeKeeper:
    """What the apps below ask of judges; see `optimize_site.kernel.judges.Judges`."""

    def find(self, model: str, namespace: str) -> str:
        return get_model(model, namespace).reference

    def appoint(self, model: str, *, instructions: str, dataset_id: str, namespace: str,
                of_workload: str = "") -> Appointment:
        version = get_model(model, namespace)
        usable_base(version)
        dataset = Version.objects.filter(pk=dataset_id).first() if dataset_id else None
        text, source = instructions_for(version, instructions, dataset, of_workload=of_workload)
        return Appointment(version.pk, version.reference, serving_of(version).base_model, text, source)

    def check_room(self, count: int, *, beside: str = "", devices: int = 0) -> str:
        return room_for(count, beside=beside, devices=devices)

    def hold(self, holder_kind: str, holder_id: str, model_ids: Iterable[str], *, beside: str = "", devices: int = 0,
             created_by: str = "") -> None:
        wanted = list(dict.fromkeys(model_ids))
        profile = room_for(len(wanted), beside=beside, devices=devices)
        for model_id in wanted:
            _hold(holder_kind, holder_id, model_id, profile, devices if profile == beside else 0, created_by)
        doorbell.ring_control()

    def held(self, holder_kind: str, holder_id: str) -> Sequence[Held]:
        rows = Judge.objects.filter(holder_kind=holder_kind, holder_id=holder_id)
        return [_held(row) for row in rows.order_by("model", "-created_at").distinct("model")]

    def not_ready(self, holder_kind: str) -> Sequence[str]:
        rows = Judge.objects.filter(holder_kind=holder_kind, ended_at=None).exclude(phase=phases.READY)
        return list(rows.values_list("holder_id", flat=True).distinct())


def canonical(target: Target, namespace: str) -> str:
    """A `model:` grader with the version it names now. Raises UnknownVersion."""
    return f"model:{get_model(target.target, namespace).reference}"


def socket_of(judge: Judge) -> Path:
    """Where a judge answers, whichever attempt of it."""
    return home() / "run" / "judges" / f"{judge.pk[:24]}.sock"


def _held(row: Judge) -> Held:
    reason = row.failure_reason or row.wait_reason or _waits_for(row)
    return Held(row.model_id, STATES.get(row.phase, "waiting"), str(socket_of(row)), reason, row.failure_code,
                row.failure_hint)


def _waits_for(row: Judge) -> str:
    return f"The judge {row.model.reference} waits for a free slot of {row.profile}." \
        if row.phase == phases.AWAITING_CAPACITY else ""


def _hold(holder_kind: str, holder_id: str, model_id: str, profile: str, leaves: int, created_by: str) -> None:
    try:
        with transaction.atomic():
            row = Judge.objects.create(holder_kind=holder_kind, holder_id=holder_id, model_id=model_id,
                                       profile=profile, leaves=leaves, phase=phases.AWAITING_BASE_MODEL,
                                       created_by=created_by or SYSTEM.name)
    except IntegrityError:
        return  # this holder has that judge already
    events.record("judge", row.pk, "judge.asked_for", actor=SYSTEM, data={
        "holderKind": holder_kind, "holderId": holder_id, "model": row.model.reference})


def is_wanted(row: Judge) -> bool:
    """Whether the holder still has use for its judge; a holder that nobody knows has none."""
    asks = HOLDERS.get(row.holder_kind)
    return asks is not None and asks(row.holder_id)


def advance_judges() -> None:
    """The next step of every judge that no job has."""
    for pk in Judge.objects.filter(ended_at=None).exclude(phase__in=phases.JUDGE.active).values_list("pk", flat=True):
        with transaction.atomic():
            row = Judge.objects.select_for_update(skip_locked=True).filter(pk=pk).first()
            if row is not None and row.phase not in phases.JUDGE.active:
                _advance(row)


def _advance(row: Judge) -> None:
    if not is_wanted(row):
        release(row)
        return
    repository = serving_of(row.model).base_model
    send_back(row, phases.JUDGE, repository)
    if row.phase == phases.AWAITING_BASE_MODEL:
        if await_base(row, phases.JUDGE, repository) is not None:
            queue(row, phases.JUDGE)
    elif not slots_by_profile().get(row.profile):
        why = f"The judge waits for a device of the profile {row.profile}, and this box now has none."
        move(row, phases.FAILED, phases=phases.JUDGE, actor=SYSTEM, reason=why, failure_code="devices_gone",
             failure_reason=why, failure_hint="Bring a device back and start again; `./optimize info` lists them.")
    if row.phase == phases.FAILED:
        doorbell.ring_control()


def release(row: Judge) -> None:
    """The judge stands on no device any more and is not wanted."""
    move(row, phases.RELEASED, phases=phases.JUDGE, actor=SYSTEM, reason=f"The {row.holder_kind} has no use for it.")
