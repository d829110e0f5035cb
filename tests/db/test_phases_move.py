"""The one function that moves a phase."""

import pytest

from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.errors import PhaseConflict
from optimize_site.kernel.ids import new_id
from optimize_site.kernel.models import Event
from optimize_site.kernel.phases import move, table
from registry.models import BaseModel

pytestmark = pytest.mark.django_db
PHASES = table("thing", {"A": {"B", "C"}, "B": {"A", "C"}, "C": ()}, active={"B"})


def make_row(**columns):
    return BaseModel.objects.create(**{"id": new_id(), "repository": new_id(), "phase": "A"} | columns)


def test_a_move_writes_the_phase_the_time_spent_and_one_event():
    row = make_row()
    move(row, "C", phases=PHASES, actor=SYSTEM, reason="because")
    assert row.phase == "C"
    assert "A" in row.phase_millis
    event = Event.objects.get(subject_id=row.pk)
    assert (event.type, event.reason, event.data["from"]) == ("thing.c", "because", "A")


def test_a_move_that_the_table_does_not_list_is_refused():
    row = make_row(phase="C")
    with pytest.raises(PhaseConflict, match="it cannot become A"):
        move(row, "A", phases=PHASES, actor=SYSTEM)


def test_a_stale_copy_cannot_move_a_row_that_went_on():
    row = make_row()
    stale = BaseModel.objects.get(pk=row.pk)
    move(row, "C", phases=PHASES, actor=SYSTEM)
    with pytest.raises(PhaseConflict, match="changed hands or left"):
        move(stale, "B", phases=PHASES, actor=SYSTEM)
    assert Event.objects.filter(subject_id=row.pk).count() == 1


def test_a_fenced_holder_cannot_move_a_row_whose_lease_went_to_another():
    row = make_row()
    move(row, "B", phases=PHASES, actor=SYSTEM, lease_token=1)
    zombie = BaseModel.objects.get(pk=row.pk)
    BaseModel.objects.filter(pk=row.pk).update(lease_token=2)
    with pytest.raises(PhaseConflict):
        move(zombie, "C", phases=PHASES, actor=SYSTEM)


def test_leaving_an_active_phase_clears_the_lease_in_the_same_update():
    row = make_row()
    move(row, "B", phases=PHASES, actor=SYSTEM, lease_token=1)
    move(row, "A", phases=PHASES, actor=SYSTEM)
    assert row.lease_token is None


def test_a_table_that_leads_nowhere_is_a_mistake_of_ours():
    with pytest.raises(ValueError, match="without a row"):
        table("thing", {"A": {"Z"}})
