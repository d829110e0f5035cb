"""Pages of pausing, saves, branches, sweeps and runs beside each other: what they show, offer and refuse."""

import html
import re

import pytest
from django.urls import reverse

from runs.models import Candidate, Run, Snapshot, SnapshotHold
from runs.operations import pause_run
from tests import factories as make
from tests.playing import save
from tests.web import scenes
from tests.web.conftest import browser_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]


@pytest.fixture
def setting_up(db):
    make.make_device("cpu")
    scenes.base_model()
    return scenes.workload(12)


@pytest.fixture
def running(setting_up):
    return scenes.train(16, steps=24, configName="r8")


@pytest.fixture
def done(setting_up):
    return scenes.complete(scenes.train(24, steps=24, configName="r8"))


def text_of(answer):
    return html.unescape(re.sub(r"\s+", " ", answer.content.decode()))


def page(client, name, *args, **query):
    return text_of(client.get(reverse(name, args=args), query))


def send(client, name, *args, htmx=False, **values):
    return client.post(reverse(name, args=args), values, headers={"HX-Request": "true"} if htmx else {})


def shown(client, run, tab=""):
    return page(client, "runs:detail", run.pk, **({"tab": tab} if tab else {}))


def rest(run):
    """What the run's job does about a pause: it ends, and the worker settles it."""
    make.end_job(run.attempt, "stopped")
    run.refresh_from_db()
    return run


@pytest.mark.requirement("R181", "R283")
def test_a_running_run_offers_both_ways_of_pausing_with_what_each_does(operator, viewer, running):
    text = shown(operator, running)
    assert 'name="checkpoint" value="save" checked' in text and 'value="latest"' in text
    assert "Nothing is trained twice" in text and "trained again" in text
    assert "Needs the role operator; you are a viewer." in shown(viewer, running)


@pytest.mark.requirement("R181", "R283")
def test_a_pause_is_told_from_the_wish_to_the_rest_and_the_run_goes_on_from_its_page(operator, running):
    send(operator, "runs:pause", running.pk, checkpoint="latest")
    text = shown(operator, running)
    assert "Pausing: it ends at once" in text and "The device is still held." in text
    assert "A pause was asked for already." in text
    text = shown(operator, rest(running))
    assert "It rests at update 16." in text and "Its device is free." in text
    assert "Resume" in text and 'name="checkpoint"' not in text
    send(operator, "runs:resume", running.pk)
    running.refresh_from_db()
    assert running.phase == "AWAITING_CAPACITY" and running.pause is None
    assert "It rests" not in shown(operator, running)


@pytest.mark.requirement("R283")
def test_a_save_that_did_not_come_about_is_told_as_a_failure(operator, running):
    Run.objects.filter(pk=running.pk).update(phase="PAUSED", lease_token=None, pause={
        "checkpoint": "save", "state": "failed", "requestedAt": "2026-01-01T00:00:00Z",
        "reason": "The save that was asked for did not come about. The disk is full.",
        "requestedBy": "ada", "savedStep": 8, "resourcesReleased": True, "pausedAt": "2026-01-01T00:01:00Z"})
    text = shown(operator, running)
    assert "The save that was asked for did not come about. The disk is full." in text
    assert "It rests at update 8." in text


@pytest.mark.requirement("R283")
def test_latest_is_not_offered_where_it_would_lose_all_that_was_trained(operator, running):
    Snapshot.objects.filter(run=running).delete()
    text = shown(operator, running)
    assert 'name="checkpoint" value="latest" disabled' in text and "would lose them all" in text
    refused = send(operator, "runs:pause", running.pk, checkpoint="latest", htmx=True)
    assert refused.status_code == 422 and "would lose them all" in text_of(refused)


def test_an_ended_run_offers_neither_pause_nor_resume_and_a_waiting_one_its_place_in_the_queue(operator, done):
    text = shown(operator, done)
    assert "Pause" not in text and "Resume" not in text and "Prioritize" not in text
    first, second = scenes.submit(configName="first", steps=24), scenes.submit(configName="second", steps=24)
    assert "Prioritize" in shown(operator, second)
    send(operator, "runs:prioritize", second.pk)
    queue = Run.objects.filter(phase="AWAITING_CAPACITY").order_by("queued_at").values_list("pk", flat=True)
    assert list(queue) == [second.pk, first.pk]
    Run.objects.filter(pk=second.pk).update(phase="AWAITING_BASE_MODEL")
    assert "only runs that wait for the same kind of device have an order" in shown(operator, second)


def test_the_buttons_follow_the_phase_while_the_page_stays_open(operator, running):
    part = {"HX-Request": "true"}
    address = reverse("runs:detail", args=[running.pk])
    key = re.search(r"\?seen=([^\"]+)", operator.get(address).content.decode()).group(1)
    assert b"hx-swap-oob" not in operator.get(address, {"seen": key}, headers=part).content
    send(operator, "runs:pause", running.pk, checkpoint="save")
    assert b'id="actions" hx-swap-oob="true"' in operator.get(address, {"seen": key}, headers=part).content


def test_a_run_that_pauses_by_its_plan_says_where(viewer, running):
    Run.objects.filter(pk=running.pk).update(pause_at_step=20)
    assert "It saves and pauses at update 20, as its descriptor says." in shown(viewer, running)
    Run.objects.filter(pk=running.pk).update(pause_at_step=10)
    assert "It saves and pauses at" not in shown(viewer, running)


@pytest.mark.requirement("R282")
def test_saves_that_wait_and_that_were_skipped_are_counted(viewer, running):
    Run.objects.filter(pk=running.pk).update(saves_waiting=2, saves_skipped=3)
    text = shown(viewer, running)
    assert "2 waiting to be written" in text and "3 skipped" in text
    assert "2 saves wait to be written." in shown(viewer, running, "snapshots")


@pytest.mark.requirement("R031", "R281")
def test_the_snapshots_tab_shows_what_each_save_holds_who_holds_it_and_what_all_take(operator, running):
    make.tell_job(running.attempt, save(running.attempt, 18))
    first, last = running.snapshots.order_by("step").first(), running.snapshots.get(step=18)
    send(operator, "runs:pin", first.pk, kind="weights")
    assert page(operator, "runs:snapshot", first.pk).count('name="kind" value="trainingState"') == 1
    send(operator, "runs:pin", first.pk)
    send(operator, "runs:unpin", first.pk, kind="trainingState")
    first.refresh_from_db()
    assert first.pinned == ["weights"]
    Snapshot.objects.filter(pk=first.pk).update(swept=["trainingState"])
    text = shown(operator, running, "snapshots")
    assert "pinned <span class=\"soft\">weights" in text and "Unpin" in text
    assert "training state</div></td>" in text and f"snapshot={last.pk}" in text
    assert re.search(r"\d+ B on the disk", text)
    send(operator, "runs:unpin", first.pk)
    first.refresh_from_db()
    assert first.pinned == []
    refused = send(operator, "runs:unpin", first.pk, htmx=True)
    assert refused.status_code == 409 and "is not pinned" in text_of(refused)


@pytest.mark.requirement("R281")
def test_a_save_is_registered_from_its_page_which_tells_how_that_stands(operator, running):
    make.tell_job(running.attempt, save(running.attempt, 18))
    snapshot = running.snapshots.get(step=18)
    send(operator, "runs:register", snapshot.pk)
    text = page(operator, "runs:snapshot", snapshot.pk)
    assert "A model is being made of it." in text and "Release" in text
    candidate = Candidate.objects.get(snapshot=snapshot)
    refused = send(operator, "runs:release", snapshot.pk, owner=candidate.pk, htmx=True)
    assert "is still being copied" in text_of(refused)
    Candidate.objects.filter(pk=candidate.pk).update(phase="FAILED", reason="The disk is full.")
    assert "No model could be made of it: The disk is full." in page(operator, "runs:snapshot", snapshot.pk)
    send(operator, "runs:release", snapshot.pk, owner=candidate.pk)
    assert not snapshot.holds.exists()


@pytest.mark.requirement("R033", "R289", "R290")
def test_the_branch_form_says_how_it_would_be_restored_and_why_before_anything_starts(operator, done):
    snapshot = done.snapshots.order_by("step").first()
    form = page(operator, "runs:branch", done.pk, snapshot=snapshot.pk)
    assert f'value="{snapshot.pk}" selected' in form and "Keeps the training state wherever that is possible" in form
    values = {"snapshot": snapshot.pk, "steps": "4", "restore": "auto"}
    plan = text_of(send(operator, "runs:branch-check", done.pk, **values))
    assert "Training state" in plan and "optimizer, generators and place in the data go on" in plan
    changed = values | {"overrides": '{"hyperparams": {"training": {"seed": 7}}}'}
    plan = text_of(send(operator, "runs:branch-check", done.pk, **changed))
    assert "A fresh optimizer: hyperparams.training.seed is overridden" in plan
    assert "What differs from its parent" in plan and "hyperparams.training.seed" in plan
    assert not Run.objects.filter(parent=done).exists()
    send(operator, "runs:branch", done.pk, **changed)
    child = Run.objects.get(parent=done)
    text = shown(operator, child)
    assert f'href="/runs/{done.pk}">run {done.pk[:12]}' in text and "Restored from its weights" in text


@pytest.mark.parametrize(("values", "sentence"), [
    ({"steps": "0"}, "a branch trains at least one update"),
    ({"overrides": '{"hyperparams": {"training": {"epochs": 2}}}'}, "epochs cannot be overridden"),
    ({"overrides": "[1]"}, "The overrides are no object of fields."),
    ({"overrides": "{"}, "The overrides"),
    ({"snapshot": ""}, "No snapshot is chosen."),
    ({"overrides": '{"hyperparams": {"training": {"seed": 7}}}', "restore": "trainingState"},
     "The training state cannot be kept"),
])
def test_a_branch_that_cannot_be_is_refused_in_the_form_and_when_sent(operator, done, values, sentence):
    sent = {"snapshot": done.snapshots.order_by("step").first().pk, "steps": "4", "restore": "auto"} | values
    assert sentence in text_of(send(operator, "runs:branch-check", done.pk, **sent))
    answer = send(operator, "runs:branch", done.pk, **sent)
    assert answer.status_code >= 400 and sentence in text_of(answer)
    assert not Run.objects.filter(parent=done).exists()


@pytest.mark.requirement("R288", "R290")
def test_a_sweep_is_shown_point_by_point_before_and_after_it_starts(operator, done):
    snapshot = done.snapshots.order_by("step").first()
    values = {"snapshot": snapshot.pk, "steps": "4", "restore": "auto", "grid": scenes.GRID}
    plan = text_of(send(operator, "runs:sweep-check", done.pk, **values))
    assert "2 ready" in plan and "learningRate 0.0005" in plan and "training state" in plan
    token = re.search(r'name="submissionId" value="([^"]+)"', plan).group(1)
    for _ in range(2):  # a second click reaches the same branches
        send(operator, "runs:sweep", done.pk, **values, submissionId=token)
    children = list(Run.objects.filter(parent=done).order_by("created_at"))
    assert len(children) == 2
    for child, loss in zip(children, (0.4, 0.3), strict=True):
        Run.objects.filter(pk=child.pk).update(summary={"lastLoss": loss})
    text = shown(operator, done, "branches")
    assert "Sweep of 2 from update" in text and "<th class=\"num\">learningRate</th>" in text
    assert text.count("lowest</b>") == 1 and "<b>0.3000 lowest</b>" in text
    refused = send(operator, "runs:sweep-check", done.pk, **(values | {"grid": "axes: []"}))
    assert text_of(refused).count("The grid has no axes.") == 1
    unwritten = text_of(send(operator, "runs:sweep-check", done.pk, **(values | {"grid": ""})))
    assert "There is no grid yet." in unwritten and 'class="note bad"' not in unwritten


@pytest.mark.requirement("R033")
def test_the_lineage_is_a_picture_of_links_that_can_be_read_out(operator, viewer, done):
    assert "Nothing was branched from this run yet." in shown(viewer, done, "branches")
    snapshot = done.snapshots.order_by("step").first()
    send(operator, "runs:branch", done.pk, snapshot=snapshot.pk, steps="4", restore="auto", config_name="<b>warm</b>")
    child = Run.objects.get(parent=done)
    for run in (done, child):
        text = viewer.get(reverse("runs:detail", args=[run.pk]), {"tab": "branches"}).content.decode()
        tree = text[text.index("<svg class=\"tree\""):text.index("</svg>", text.index("<svg class=\"tree\""))]
        assert tree.count("<a ") == 2 and tree.count("aria-label=") == 3
        assert f'href="/runs/{done.pk}"' in tree and f'href="/runs/{child.pk}"' in tree
        assert f"branched at update {snapshot.step}" in tree
        assert "<b>warm" not in text and "&lt;b&gt;warm" in tree
        assert tree.count('aria-current="page"') == 1


def test_runs_stand_beside_each_other_on_one_chart(viewer, done):
    other = scenes.complete(scenes.train(24, steps=24, configName="r8 | again", seed=3))
    third = scenes.submit(configName="r16", rank=16, steps=24)
    text = page(viewer, "runs:compare", run=[done.pk, other.pk], margin="0.001", window="8")
    assert f'data-names="loss-{done.pk},loss-{other.pk}"' in text
    assert 'data-labels="r8|r8 / again"' in text
    assert "1 to 8" in text and "17 to 24" in text and "Nothing: they follow one plan." in text
    assert "updates 1 to 8" in text
    curves = viewer.get(reverse("runs:compare-series"), {"run": [done.pk, other.pk]}).json()
    assert len(curves["series"][f"loss-{other.pk}"]["steps"]) == 24
    text = page(viewer, "runs:compare", run=f"{done.pk[:12]}, {third.pk[:12]}")
    assert "have different plans" in text and "Compare them all the same" in text
    text = page(viewer, "runs:compare", run=[done.pk, third.pk], across="yes")
    assert "hyperparams.lora.rank" in text and "They have no update in common yet." in text
    assert "There is no run" in page(viewer, "runs:compare", run=["ffff", done.pk])


def test_rewards_stand_on_one_chart_and_no_loss_beside_them(viewer, done):
    other = scenes.complete(scenes.train(24, steps=24, configName="r8 again", seed=3))
    runs = {done: 0.5, other: 0.9}
    for run, reward in runs.items():
        Run.objects.filter(pk=run.pk).update(method="grpo")
        for metric in run.metrics.all():
            metric.values |= {"reward": reward, "kl": 0.1}
            metric.save()
    asked = {"run": [run.pk for run in runs], "across": "yes"}
    text = page(viewer, "runs:compare", **asked)
    assert f'data-names="reward-{done.pk},reward-{other.pk}"' in text and "data-names=\"loss-" not in text
    assert "Mean difference in reward" in text and '<b class="good">+0.4000</b> <span class="tag">higher</span>' in text
    assert '<option value="kl">KL from the reference</option>' in text
    assert "--figure kl" in page(viewer, "runs:compare", **asked, figure="kl")
    assert "compared by reward or kl" in page(viewer, "runs:compare", **asked, figure="loss")
    curves = viewer.get(reverse("runs:compare-series"), asked).json()["series"]
    assert curves[f"reward-{other.pk}"]["values"][-1] == 0.9 and f"loss-{done.pk}" not in curves
    Run.objects.filter(pk=done.pk).update(method="sft")
    assert "They have no chart in common." in page(viewer, "runs:compare", **asked)


def test_of_a_sweep_of_rewards_the_highest_is_marked_and_every_point_can_be_chosen(operator, done, monkeypatch):
    monkeypatch.setattr("runs.views.lineage.MOST_RUNS", 1)
    snapshot = done.snapshots.order_by("step").first()
    send(operator, "runs:sweep", done.pk, snapshot=snapshot.pk, steps="4", restore="auto", grid=scenes.GRID)
    children = list(Run.objects.filter(parent=done).order_by("created_at"))
    for child, reward in zip(children, (0.4, 0.7), strict=True):
        Run.objects.filter(pk=child.pk).update(method="grpo", summary={"lastLoss": 0.02, "lastReward": reward})
    text = shown(operator, done, "branches")
    assert "<b>0.7000 highest</b>" in text and "lowest" not in text
    last = '0.4000 <span class="soft small">reward</span>'
    assert last in text and ", reward 0.4<" in text
    assert last in page(operator, "evaluations:comparison-new", source=snapshot.pk)
    assert "One chart takes up to 1 of them." in text
    sweep = text[text.index('aria-label="Sweep 1"'):text.index('id="branches-title"')]
    boxes = re.findall(r'<input type="checkbox"[^>]*', sweep)
    assert [child.pk in box for child, box in zip(children, boxes, strict=True)] == [True, True]
    assert [box.endswith("checked") for box in boxes] == [True, False]


def test_the_admin_leads_from_a_run_and_its_saves_to_what_is_begun_on_pages(operator, done):
    save = done.snapshots.first()
    forms = {"run": [f"/runs/{done.pk}", *(f"/runs/{done.pk}/{name}" for name in ("branch", "continue", "sweep"))],
             "snapshot": [f"/snapshots/{save.pk}", f"/runs/{done.pk}/branch?snapshot={save.pk}",
                          f"/runs/{done.pk}/sweep?snapshot={save.pk}", f"/comparisons/new?source={save.pk}"]}
    for (model, addresses), row in zip(forms.items(), (done, save), strict=True):
        page = operator.get(reverse(f"admin:runs_{model}_change", args=[row.pk])).content.decode()
        assert [address for address in addresses if f'<a href="{address}">' not in page] == []
        assert {operator.get(address).status_code for address in addresses} == {200}


def test_the_admin_pauses_resumes_and_pins_through_the_operations(operator, running):
    def act(model, action, row):
        return text_of(operator.post(reverse(f"admin:{model}_changelist"),
                                     {"action": action, "_selected_action": [row.pk]}, follow=True))

    snapshot = running.snapshots.first()
    assert "stays until it is unpinned: weights." in act("runs_snapshot", "pin_weights", snapshot)
    assert "unpinned: trainingState, weights." in act("runs_snapshot", "pin_training_state", snapshot)
    assert "is left to retention for its weights" in act("runs_snapshot", "unpin_weights", snapshot)
    assert "is left to retention for its trainingState" in act("runs_snapshot", "unpin_training_state", snapshot)
    assert "unpinned: trainingState, weights." in act("runs_snapshot", "pin", snapshot)
    assert "is left to retention." in act("runs_snapshot", "unpin", snapshot)
    assert "is not pinned" in act("runs_snapshot", "unpin", snapshot)
    assert "nothing to resume" in act("runs_run", "resume", running)
    assert "is pausing" in act("runs_run", "pause_at_latest", running)
    assert "already pausing" in act("runs_run", "pause_saving", running)
    assert "goes on" in act("runs_run", "resume", rest(running))
    assert "is the next of its devices" in act("runs_run", "prioritize", running)
    assert "is being made of the snapshot" in act("runs_snapshot", "register", snapshot)
    held = SnapshotHold.objects.get(snapshot=snapshot)
    assert "is still being copied" in act("runs_snapshothold", "release", held)
    Candidate.objects.update(phase="FAILED")
    assert "any more" in act("runs_snapshothold", "release", held)
    assert not SnapshotHold.objects.exists()


def test_a_runs_note_and_the_name_of_its_configuration_are_kept_and_cleared_on_its_page(operator, running):
    send(operator, "runs:annotate", running.pk, description="A second look.", config_name="half the rate")
    text = shown(operator, running)
    assert "<h1>half the rate</h1>" in text and '<p class="lead pre">A second look.</p>' in text
    refused = send(operator, "runs:annotate", running.pk, config_name="x" * 10_000, htmx=True)
    assert refused.status_code == 400 and "configName has 10000 characters" in text_of(refused)
    send(operator, "runs:annotate", running.pk, description="", config_name="")
    running.refresh_from_db()
    assert (running.description, running.config_name) == ("", "")


def test_a_viewer_changes_nothing_of_a_runs_life(viewer, running):
    snapshot = running.snapshots.first()
    of_the_run = [(name, running.pk) for name in ("pause", "resume", "prioritize", "annotate")]
    for name, key in (*of_the_run, ("pin", snapshot.pk), ("register", snapshot.pk)):
        assert send(viewer, f"runs:{name}", key, checkpoint="save").status_code == 403, name
    running.refresh_from_db()
    assert running.pause is None


def test_a_pause_asked_for_elsewhere_is_named_with_who_asked(viewer, running):
    from optimize_site.kernel.auth import Actor

    pause_run(running, checkpoint="save", actor=Actor("ada", "operator"))
    assert "it saves after the update it is at, then rests" in shown(browser_of("admin"), running)
    assert "Asked for by ada" in shown(viewer, running)


def test_a_run_is_verified_from_its_page_and_in_the_admin(admin, viewer, done):
    assert reverse("runs:verify", args=[done.pk]) in viewer.get(
        reverse("runs:detail", args=[done.pk]), {"tab": "checks"}).content.decode()
    text = page(viewer, "runs:verify", done.pk)
    assert "Disagrees" in text and "the manifest cannot be read" in text  # the scene's saves are not on the disk
    told = text_of(admin.post("/admin/runs/run/", {"action": "verify", "_selected_action": [done.pk]}, follow=True))
    assert f"The run {done.pk[:12]}: Not OK" in told and "the manifest cannot be read" in told
