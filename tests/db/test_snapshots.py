"""Snapshots: what they hold, who keeps them, what retention removes, and the models made of them."""

import json
import re
from datetime import timedelta

import pytest

from optimize_site.kernel import clock
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.errors import NotFound
from optimize_site.kernel.models import Attempt
from registry.errors import NamespaceArchived, WorkInProgress, WorkloadArchived
from registry.models import Version
from registry.operations.namespaces import archive_namespace
from registry.operations.workloads import archive_workload, unarchive_workload
from runs import queries, render
from runs.errors import HoldStands, KindMissing, KindUnknown
from runs.management.commands.runs import Command as Runs
from runs.management.commands.snapshots import Command as Snapshots
from runs.models import Candidate, Run, Snapshot, SnapshotHold
from runs.operations import (
    advance_run,
    branch_run,
    cancel_run,
    get_candidate,
    pin_snapshot,
    register_candidate,
    release_snapshot,
    tend_snapshots,
    unpin_snapshot,
)
from runs.operations.branching import Wish
from runs.operations.candidates import advance_candidates
from runs.operations.holds import hold_snapshot
from tests.factories import make_device, make_run
from tests.playing import STARTED, claim, end, metrics, reread, save, say

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))


@pytest.fixture
def run(db):
    make_device()
    made = make_run()
    advance_run(made.pk)
    return reread(made)


@pytest.fixture
def saved(run):
    """A run in training that has saved eight times, the last of them whole like the others."""
    attempt = claim(run)
    say(run, attempt, STARTED)
    for step in range(1, 9):
        say(run, attempt, metrics(step), save(attempt, step))
    return reread(run)


def snapshot(run, step):
    return Snapshot.objects.get(run=run, step=step)


def held(run):
    """Steps with the kinds they still hold."""
    return {row["step"]: row["artifacts"] for row in map(render.snapshot_document, queries.snapshots_of(run))}


@pytest.mark.requirement("R031", "R166")
def test_the_newest_saves_stay_and_the_others_are_removed_from_the_disk(saved):
    tend_snapshots()
    kinds = held(saved)
    assert [step for step in kinds if "trainingState" in kinds[step]] == [8, 7, 6]
    assert [step for step in kinds if "weights" in kinds[step]] == [8, 7, 6, 5, 4, 3]
    gone = snapshot(saved, 1)
    assert gone.removed_at is not None
    assert not queries.folder_of_snapshot(gone).exists()
    assert sorted(path.name for path in queries.folder_of_snapshot(snapshot(saved, 3)).iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors", "weights.manifest.json"]


@pytest.mark.requirement("R166")
def test_a_pinned_save_stays_and_goes_once_it_is_not_pinned_any_more(saved):
    pin_snapshot(snapshot(saved, 1), kind="weights", actor=LOCAL)
    tend_snapshots()
    assert held(saved)[1] == ["weights"]
    unpin_snapshot(snapshot(saved, 1), actor=LOCAL)
    tend_snapshots()
    assert held(saved)[1] == []


def ended_long_ago(run):
    """The run ended, retention has seen to it, and days have passed."""
    Run.objects.filter(pk=run.pk).update(phase="CANCELLED", lease_token=None,
                                         ended_at=clock.now() - timedelta(days=9))
    tend_snapshots()


def unpinned(run, source):
    pin_snapshot(source, kind="weights", actor=LOCAL)
    ended_long_ago(run)
    unpin_snapshot(source, actor=LOCAL)


def released(run, source):
    hold_snapshot(source, ["weights"], holder_kind="run", holder_id="a" * 64)
    ended_long_ago(run)
    release_snapshot(source, "aaaa", actor=LOCAL)


def left_by_its_branch(run, source):
    child = branch_run(Wish(source, 2, "weights"), actor=LOCAL).run
    ended_long_ago(run)
    cancel_run(child, actor=LOCAL)


def made_a_model_of(run, source):
    hold_snapshot(source, ["weights"], holder_kind="run", holder_id="a" * 64)
    ended_long_ago(run)
    register_candidate(source, actor=LOCAL)
    SnapshotHold.objects.filter(holder_kind="run").delete()
    advance_candidates()


@pytest.mark.requirement("R166")
@pytest.mark.parametrize("let_go", [unpinned, released, left_by_its_branch, made_a_model_of])
def test_a_save_that_is_let_go_long_after_its_run_ended_is_removed(saved, let_go):
    let_go(saved, snapshot(saved, 1))
    assert "weights" in held(saved)[1]
    tend_snapshots()
    assert held(saved)[1] == []


@pytest.mark.requirement("R166")
def test_a_run_that_ended_while_the_box_was_away_is_still_looked_at(saved):
    Run.objects.filter(pk=saved.pk).update(phase="CANCELLED", lease_token=None,
                                           ended_at=clock.now() - timedelta(days=9))
    tend_snapshots()
    assert held(saved)[1] == []


def test_retention_looks_at_no_run_that_ended_and_of_which_nothing_was_released(saved, django_assert_max_num_queries):
    never_saved = make_run(phase="FAILED")
    ended_long_ago(saved)
    assert not Run.objects.filter(pk__in=[saved.pk, never_saved.pk], retention_due_at__isnull=False).exists()
    with django_assert_max_num_queries(3):
        tend_snapshots()


def test_pinning_twice_changes_nothing_and_a_kind_that_is_gone_is_not_pinned(saved):
    first = pin_snapshot(snapshot(saved, 8), actor=LOCAL)
    assert pin_snapshot(snapshot(saved, 8), actor=LOCAL).pinned == first.pinned == ["trainingState", "weights"]
    tend_snapshots()
    with pytest.raises(KindMissing, match="holds no trainingState"):
        pin_snapshot(snapshot(saved, 4), kind="trainingState", actor=LOCAL)
    with pytest.raises(KindUnknown, match="weights or trainingState"):
        pin_snapshot(snapshot(saved, 8), kind="all", actor=LOCAL)
    with pytest.raises(KindMissing, match="not pinned"):
        unpin_snapshot(snapshot(saved, 7), actor=LOCAL)


def test_a_held_save_stays_until_its_holder_lets_go_or_is_released(saved):
    hold_snapshot(snapshot(saved, 1), ["weights"], holder_kind="run", holder_id=saved.pk)
    tend_snapshots()
    assert held(saved)[1] == ["weights"]
    with pytest.raises(HoldStands, match="is TRAINING"):
        release_snapshot(snapshot(saved, 1), saved.pk[:12], actor=LOCAL)
    with pytest.raises(NotFound, match="Nothing that begins with"):
        release_snapshot(snapshot(saved, 1), "f" * 12, actor=LOCAL)
    SnapshotHold.objects.update(holder_id="a" * 64)
    release_snapshot(snapshot(saved, 1), "aaaa", actor=LOCAL)
    tend_snapshots()
    assert held(saved)[1] == []


def test_the_commands_pin_unpin_and_clear_a_hold_that_was_left_behind(saved, capsys):
    def ask(*words):
        status = Snapshots().run(list(words))
        return status, "".join(capsys.readouterr())

    first = snapshot(saved, 1)
    assert ask("pin", first.pk)[0] in (0, None)
    assert ask("unpin", first.pk[:12])[0] in (0, None)
    status, said = ask("unpin", first.pk)
    assert status == 3 and "not pinned" in said
    hold_snapshot(first, ["weights"], holder_kind="run", holder_id=saved.pk)
    status, said = ask("release", first.pk, saved.pk[:12])
    assert status == 3 and "is TRAINING" in said
    SnapshotHold.objects.update(holder_id="a" * 64)
    assert ask("release", first.pk, "aaaa")[0] in (0, None)
    assert not SnapshotHold.objects.exists()


@pytest.mark.parametrize("phase", ["PAUSED", "AWAITING_CAPACITY"])
def test_a_hold_of_a_run_that_rests_or_waits_is_not_released(saved, phase):
    child = branch_run(Wish(snapshot(saved, 1), 2, "weights"), actor=LOCAL).run
    Run.objects.filter(pk=child.pk).update(phase=phase)
    with pytest.raises(HoldStands, match=f"is {phase} and starts from this snapshot"):
        release_snapshot(snapshot(saved, 1), child.pk[:12], actor=LOCAL)


@pytest.mark.requirement("R281")
def test_a_save_of_weights_alone_is_not_resumed_from(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), save(attempt, 1), metrics(2), save(attempt, 2, state=False))
    assert [found.step for found in queries.newest_restorable(run)] == [1]
    end(run, attempt, "lost", exit={"signal": 9})
    tend_snapshots()
    assert held(run) == {2: ["weights"], 1: ["weights", "trainingState"]}


@pytest.mark.requirement("R189", "R281")
def test_a_model_is_made_of_a_save_once_however_often_it_is_asked(saved):
    first = register_candidate(snapshot(saved, 4), actor=LOCAL)
    assert first.phase == "REGISTERING"
    tend_snapshots()
    again = register_candidate(snapshot(saved, 4), actor=LOCAL)
    assert (again.pk, again.phase, again.version_id) == (first.pk, "REGISTERED", first.pk)
    version = Version.objects.get(pk=first.pk)
    assert (version.produced_by_kind, version.produced_by_id) == ("run", f"{saved.pk}#4")
    assert reread(saved).model_id is None
    assert not SnapshotHold.objects.exists()


@pytest.mark.requirement("R189")
def test_a_cancelled_run_leaves_its_saves_which_a_model_is_made_of(saved):
    cancel_run(saved, actor=LOCAL)
    attempt = Attempt.objects.get(holder_id=saved.pk)
    assert end(saved, attempt, "stopped").phase == "CLEANING_UP"
    advance_run(saved.pk)
    assert reread(saved).phase == "CANCELLED"
    register_candidate(snapshot(saved, 7), actor=LOCAL)
    tend_snapshots()
    assert get_candidate(snapshot(saved, 7)).phase == "REGISTERED"


def test_a_model_that_could_not_be_made_says_why_keeps_its_source_and_can_be_tried_again(saved):
    source = snapshot(saved, 2)
    path = queries.folder_of_snapshot(source) / "adapter_model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(b"damaged")
    register_candidate(source, actor=LOCAL)
    tend_snapshots()
    failed = get_candidate(source)
    assert failed.phase == "FAILED"
    assert "adapter_model.safetensors is not what the manifest says" in failed.reason
    assert held(saved)[2] == ["weights"]
    path.write_bytes(whole)
    register_candidate(source, actor=LOCAL)
    tend_snapshots()
    assert get_candidate(source).phase == "REGISTERED"


@pytest.mark.requirement("R297", "R302")
def test_no_model_is_made_for_what_is_archived(saved):
    Run.objects.filter(pk=saved.pk).update(phase="COMPLETED", lease_token=None)
    archive_workload(saved.workload, actor=LOCAL)
    with pytest.raises(WorkloadArchived) as refused:
        register_candidate(snapshot(saved, 4), actor=LOCAL)
    assert "workloads unarchive triage" in refused.value.hint
    unarchive_workload(saved.workload, actor=LOCAL)
    archive_namespace(saved.workload.namespace, actor=LOCAL)
    with pytest.raises(NamespaceArchived) as refused:
        register_candidate(snapshot(saved, 4), actor=LOCAL)
    assert "namespaces unarchive triage" in refused.value.hint
    assert not Candidate.objects.exists() and not SnapshotHold.objects.filter(holder_kind="candidate").exists()


@pytest.mark.requirement("R298")
def test_a_workload_is_not_archived_while_a_model_is_being_made(saved):
    Run.objects.filter(pk=saved.pk).update(phase="COMPLETED", lease_token=None)
    candidate = register_candidate(snapshot(saved, 4), actor=LOCAL)
    with pytest.raises(WorkInProgress, match=f"candidate {candidate.pk[:12]}"):
        archive_workload(saved.workload, actor=LOCAL)
    tend_snapshots()
    archive_workload(saved.workload, actor=LOCAL)
    assert register_candidate(snapshot(saved, 4), actor=LOCAL).phase == "REGISTERED"


def test_nothing_is_made_of_a_save_whose_weights_are_gone(saved):
    tend_snapshots()
    with pytest.raises(KindMissing, match="holds no weights"):
        register_candidate(snapshot(saved, 1), actor=LOCAL)
    with pytest.raises(NotFound, match="Nobody has registered"):
        get_candidate(snapshot(saved, 1))
    assert not Candidate.objects.exists()


def test_commands_and_routes_tell_the_same_of_a_snapshot(saved, capsys):
    def ask(noun, *argv):
        noun.run([*argv, "-o", "json"])
        return json.loads(capsys.readouterr().out)

    found = snapshot(saved, 8)
    pinned = ask(Snapshots(), "pin", found.pk[:12])
    assert pinned["heldBy"] == [{"kind": "trainingState", "holder": "retention", "holderId": ""},
                                {"kind": "weights", "holder": "retention", "holderId": ""}]
    assert {part["kind"]: part["manifestDigest"] for part in pinned["artifacts"]} == {
        "weights": found.manifest_sha256, "trainingState": found.state_manifest_sha256}
    assert ask(Snapshots(), "register", found.pk)["phase"] == "REGISTERING"
    tend_snapshots()
    assert ask(Snapshots(), "candidate", found.pk)["model"].endswith(":v1")
    Runs().run(["snapshots", saved.pk])
    assert "retention" in capsys.readouterr().out


def test_a_run_says_what_its_saves_take_on_the_disk_also_once_some_were_removed(saved, capsys):
    def stored():
        on_disk = sum(path.stat().st_size for found in queries.snapshots_of(saved) if found.removed_at is None
                      for path in queries.folder_of_snapshot(found).iterdir())
        assert render.run_document(queries.get_run(saved.pk))["storedBytes"] == on_disk
        return on_disk

    before = stored()
    tend_snapshots()
    assert 0 < stored() < before
    Runs().run(["get", saved.pk])
    assert re.search(r"Stored +\S+ (B|KiB) of saves", capsys.readouterr().out)


@pytest.mark.requirement("R282")
def test_a_run_shows_how_many_saves_wait_and_were_skipped(run):
    attempt = claim(run)
    say(run, attempt, STARTED, metrics(1), {"type": "saves", "waiting": 2, "skipped": 3})
    document = render.run_document(queries.get_run(run.pk))
    assert (document["savesWaiting"], document["savesSkipped"]) == (2, 3)
    assert Run.objects.get(pk=run.pk).saves_waiting == 2
