"""The pages of workloads, models and evaluations."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from optimize_site.kernel.auth import LOCAL_SECRET
from registry.management.commands.workloads import Command
from registry.workload_queries import get_workload, references_of
from tests import factories as make
from tests.web import scenes

pytestmark = pytest.mark.django_db


@pytest.fixture
def trained(db):
    """A completed run's model over a ready base model, nothing scored."""
    make.make_device("cpu")
    base = scenes.base_model()
    task = scenes.workload(12)
    run = scenes.complete(scenes.train(12, steps=12, configName="r8"))
    return {"base": base, "task": task, "run": run, "model": run.model}


@pytest.fixture
def api():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def test_a_workload_is_made_in_the_form_and_a_bad_name_comes_back(operator):
    make.make_dataset("triage/eval", 3)
    answer = operator.post(reverse("evaluations:workload-new"), {"name": "triage", "dataset": "triage/eval"})
    assert answer["Location"] == "/workloads/triage"
    again = operator.post(reverse("evaluations:workload-new"), {"name": "triage"})
    assert again.status_code == 409 and b"There is a workload triage already." in again.content
    bad = operator.post(reverse("evaluations:workload-new"), {"name": "<b>x</b>"})
    assert bad.status_code in {400, 422} and b"<b>x</b>" not in bad.content


def test_promotion_shows_its_evidence_then_happens(operator, trained):
    scenes.evaluate(trained["base"].version.reference, 0.2)
    scenes.evaluate(trained["model"].pk, 0.95)
    task, model = trained["task"], trained["model"]
    shown = operator.get(reverse("evaluations:workload", args=[task.name])).content.decode()
    assert "Ready to promote" in shown and f"?model={model.pk}" in shown
    asked = operator.get(reverse("evaluations:promote", args=[task.name]), {"model": model.pk}).content.decode()
    assert "The evidence" in asked and "Untouched base" in asked and "Difference" in asked
    done = operator.post(reverse("evaluations:promote", args=[task.name]), {"model": model.pk, "note": "it is better"})
    assert done["Location"] == reverse("evaluations:workload", args=[task.name])
    champion = references_of(task)["champion"]
    assert (champion.version_id, champion.moved_by) == (model.pk, "a-operator")
    assert "it is better" in operator.get(done["Location"]).content.decode()


def test_a_promotion_without_evidence_is_refused_in_the_apis_words(operator, trained):
    address = reverse("evaluations:promote", args=[trained["task"].name])
    sent = {"model": trained["model"].pk}
    assert "Promote all the same" in operator.get(address, sent).content.decode()
    refused = operator.post(address, sent, headers={"HX-Request": "true"})
    assert refused.status_code == 422 and b"has no score" in refused.content
    assert operator.post(address, sent | {"force": "yes"}).status_code == 400
    assert operator.post(address, sent | {"force": "yes", "note": "trial"}).status_code == 302


def test_flipped_rows_stand_side_by_side_with_both_answers(operator, trained):
    from evaluations.operations.promotion import promote
    from optimize_site.kernel.auth import LOCAL

    other = scenes.complete(scenes.train(12, steps=12, rank=16, seed=3)).model
    scenes.evaluate(trained["model"].pk, 0.5, seed=2)
    scenes.evaluate(other.pk, 0.99, seed=4)
    promote(trained["task"], trained["model"], actor=LOCAL)
    text = operator.get(reverse("evaluations:promote", args=[trained["task"].name]), {"model": other.pk})
    assert "Rows that flipped" in text.content.decode()
    assert "Better" in text.content.decode() and "the champion" in text.content.decode()


def test_an_evaluation_starts_from_the_form_and_shows_its_rows_wrong_first(operator, trained):
    sent = {"model": trained["model"].pk, "workload": "", "dataset": "", "grader": "", "description": ""}
    started = operator.post(reverse("evaluations:new"), sent)
    assert started.status_code == 302 and started["Location"].startswith("/evaluations/")
    operator.post(started["Location"] + "/cancel")
    row = scenes.evaluate(trained["model"].pk, 0.6)
    text = operator.get(reverse("evaluations:detail", args=[row.pk])).content.decode()
    assert "Mean score" in text and "Accuracy of each field" in text and "What it answered for" in text
    assert text.index("wrong") < text.index(">Right<")
    assert "<ins" in text


def test_a_running_evaluation_shows_how_far_it_is(viewer, trained):
    row = scenes.evaluate(trained["model"].pk, 0.8, upto=5)
    text = " ".join(viewer.get(reverse("evaluations:detail", args=[row.pk])).content.decode().split())
    assert "Answering" in text and "5 <small>of 12" in text and "Mean score so far" in text


def test_promote_is_offered_on_the_open_page_as_soon_as_the_evaluation_completes(operator, trained):
    row = scenes.evaluate(trained["model"].pk, 0.8, upto=5)
    address, part = reverse("evaluations:detail", args=[row.pk]), {"HX-Request": "true"}
    shown = operator.get(address).content.decode()
    seen = re.search(r"\?seen=([^\"]+)", shown).group(1)
    assert "Promote</a>" not in shown
    assert b"hx-swap-oob" not in operator.get(address, {"seen": seen}, headers=part).content
    type(row).objects.filter(pk=row.pk).update(phase="COMPLETED", lease_token=None)
    answer = operator.get(address, {"seen": seen}, headers=part).content.decode()
    assert "Promote</a>" in answer.partition('id="actions" hx-swap-oob="true"')[2]


def test_an_answer_is_never_markup(viewer, trained):
    row = scenes.evaluate(trained["model"].pk, 0.8, upto=2)
    row.predictions.update(answer="<script>alert(1)</script>", explanation="<script>alert(2)</script>")
    text = viewer.get(reverse("evaluations:detail", args=[row.pk])).content.decode()
    assert "<script>alert" not in text and "&lt;" in text


def test_the_start_form_refuses_in_place(operator, trained):
    answer = operator.post(reverse("evaluations:new"), {"model": trained["model"].pk, "dataset": "no/such"})
    assert answer.status_code == 404
    assert b"There is no dataset" in answer.content and b"no/such" in answer.content
    assert operator.get(reverse("evaluations:new"), {"model": "no-such-model"}).status_code == 200


def test_an_evaluation_of_a_base_model_that_is_being_prepared_is_started_shown_and_cancelled(operator, trained):
    make.make_base_model("acme/later", phase="FETCHING", lease_token=1)
    form = operator.get(reverse("evaluations:new")).content.decode()
    assert '<option value="acme/later">acme/later (being prepared)</option>' in form
    sent = {"model": "acme/later", "workload": scenes.WORKLOAD}
    page = operator.post(reverse("evaluations:new"), sent)["Location"]
    shown = operator.get(page).content.decode()
    assert "Waiting for the base model" in shown and "acme/later is being prepared." in shown
    assert "acme/later" in operator.get(reverse("evaluations:list")).content.decode()
    assert "acme/later is being prepared." in operator.get(reverse("box:home")).content.decode()
    operator.post(f"{page}/cancel")
    assert "Cancelled" in operator.get(page).content.decode()


def test_a_models_page_shows_where_it_came_from(viewer, trained):
    text = viewer.get(reverse("evaluations:model", args=[trained["model"].pk])).content.decode()
    assert "Where it came from" in text
    for part in (scenes.BASE, f"{scenes.WORKLOAD}/train:v1", "r8", "adapter_model.safetensors"):
        assert part in text, part
    assert f"/v1/registry/models/{trained['model'].pk}/adapter.zip" in text


def test_one_input_is_answered_by_the_model_and_by_its_base(operator, trained):
    part = {"HX-Request": "true"}
    answer = operator.post(reverse("endpoints:try", args=[trained["model"].pk]), {"input": "My card is lost <b>"},
                           headers=part)
    text = answer.content.decode()
    assert answer.status_code == 200 and 'hx-trigger="every 1s"' in text
    from endpoints.models import Trial

    trial = Trial.objects.get()
    said = {"prompt_tokens": 9, "completion_tokens": 3, "finish": "stop", "base_model_revision": "r",
            "chat_template_sha256": "t", "position": 0, "prompt": []}
    make.run_job({"type": "answer", "system": "candidate", "answer": '{"queue": "account"}'} | said,
                 {"type": "answer", "system": "base", "answer": "<script>alert(1)</script>"} | said)
    done = operator.get(reverse("endpoints:trial", args=[trial.pk]), headers=part)
    text = done.content.decode()
    assert done.status_code == 286
    assert "{&quot;queue&quot;: &quot;account&quot;}" in text and "&lt;script&gt;" in text


def test_an_empty_input_is_refused_in_words(operator, trained):
    answer = operator.post(reverse("endpoints:try", args=[trained["model"].pk]), {"input": "x" * 200_000},
                           headers={"HX-Request": "true"})
    assert answer.status_code == 400 and b"longer than" in answer.content


def test_settings_change_what_judges(operator, trained):
    make.make_dataset(f"{scenes.WORKLOAD}/eval", 4)
    address = reverse("evaluations:workload-settings", args=[trained["task"].name])
    assert operator.post(address, {"dataset": f"{scenes.WORKLOAD}/eval:v2", "grader": "json-label-match",
                                   "description": "new"}).status_code == 302
    trained["task"].refresh_from_db()
    assert trained["task"].evaluation_dataset.number == 2 and trained["task"].description == "new"


def test_settings_that_cannot_be_kept_are_refused_and_not_said_to_be_saved(operator, trained):
    """A grader stands with the rows that it judges; a form that only changes the note changes no grader."""
    make_it, other = reverse("evaluations:workload-new"), reverse("evaluations:workload-settings", args=["other"])
    judge = {"grader": f"model:{trained['base'].version.reference}", "instructions": "Be\r\nbrief."}
    assert operator.post(make_it, {"name": "other"} | judge).status_code == 302
    shown = judge | {"dataset": "", "grader": get_workload("other").grader, "description": "new"}
    assert operator.post(other, shown).status_code == 302 and get_workload("other").description == "new"
    for change in ({"instructions": "Be fair."}, {"grader": "exact", "instructions": ""}):
        refused = operator.post(other, shown | change, headers={"HX-Request": "true"})
        assert refused.status_code == 400 and b"No evaluation data is named" in refused.content, change
    own = reverse("evaluations:workload-settings", args=[trained["task"].name])
    emptied = operator.post(own, {"dataset": "", "grader": "exact"}, headers={"HX-Request": "true"})
    assert emptied.status_code == 400 and get_workload(trained["task"].name).evaluation_dataset is not None


def test_settings_of_which_one_is_refused_leave_all_as_it_was(operator, trained):
    task = trained["task"]
    before = (task.evaluation_dataset, task.grader, task.description, references_of(task))
    refused = operator.post(reverse("evaluations:workload-settings", args=[task.name]), {
        "dataset": f"{scenes.WORKLOAD}/eval", "grader": "exact", "base": trained["model"].pk, "description": "new"},
        headers={"HX-Request": "true"})
    assert refused.status_code >= 400 and b"takes a base model" in refused.content
    task.refresh_from_db()
    assert (task.evaluation_dataset, task.grader, task.description, references_of(task)) == before


def test_what_a_workloads_judge_is_told_is_set_and_shown_on_every_surface(operator, admin, api, trained, capsys):
    """Its page, the route, the command and the admin; each change stands in the history."""
    name, grader = trained["task"].name, f"model:{trained['base'].version.reference}"
    address, route = reverse("evaluations:workload-settings", args=[name]), f"/v1/training/workloads/{name}"
    stated = {"dataset": f"{scenes.WORKLOAD}/eval", "grader": grader}
    assert operator.post(address, stated | {"instructions": "Be <b>kind</b>."}).status_code == 302
    page = operator.get(reverse("evaluations:workload", args=[name])).content.decode()
    assert page.count("Be &lt;b&gt;kind&lt;/b&gt;.") == 2 and "<b>kind" not in page
    body = stated | {"graderInstructions": "Be strict."}
    said = api.post(f"{route}/set-evaluation", body, content_type="application/json").json()
    assert said["evaluation"]["graderInstructions"] == "Be strict."
    words = ["--dataset", stated["dataset"], "--grader", grader, "--grader-instructions", "Be fair."]
    assert Command().run(["set-evaluation", name, *words]) == 0
    assert "Be fair." in capsys.readouterr().out
    shown = admin.get(reverse("admin:registry_workload_change", args=[trained["task"].pk]))
    assert b"Be fair." in shown.content
    history = api.get(f"{route}/history").json()["history"]
    changes = [row for row in history if row["type"] == "workload.evaluation_set"]
    assert [row.get("graderInstructions") for row in changes[-3:]] == ["Be <b>kind</b>.", "Be strict.", "Be fair."]
    assert changes[-1]["previousGraderInstructions"] == "Be strict."
    refused = operator.post(address, stated | {"grader": "exact", "instructions": "Be kind."},
                            headers={"HX-Request": "true"})
    assert refused.status_code == 422 and b"the grader is exact" in refused.content
    made = operator.post(reverse("evaluations:workload-new"), {
        "name": "other", "dataset": stated["dataset"], "grader": grader, "instructions": "Be brief."})
    assert made.status_code == 302
    assert Command().run(["create", "third", *words[:4], "--grader-instructions", "x" * 8001]) == 2
    assert "at most 8000" in capsys.readouterr().err
    assert get_workload("other").grader_instructions == "Be brief."


def test_the_command_says_that_it_drops_instructions_that_are_left_out(trained, capsys):
    words = ["set-evaluation", trained["task"].name, "--dataset", f"{scenes.WORKLOAD}/eval", "--grader",
             f"model:{trained['base'].version.reference}"]
    told = []
    for more in (["--grader-instructions", "Be fair."], []):
        assert Command().run([*words, *more]) == 0
        told.append(get_workload(trained["task"].name).grader_instructions)
    assert told == ["Be fair.", ""]
    capsys.readouterr()
    with pytest.raises(SystemExit):
        Command().run(["set-evaluation", "--help"])
    assert "left out, what it was told before is dropped" in " ".join(capsys.readouterr().out.split())


def test_search_finds_by_name_and_by_the_beginning_of_an_id(viewer, trained):
    def find(text):
        return viewer.get(reverse("box:search"), {"q": text})

    assert find(trained["run"].pk[:12])["Location"] == reverse("runs:detail", args=[trained["run"].pk])
    assert find(trained["model"].pk[:10])["Location"] == reverse("evaluations:model", args=[trained["model"].pk])
    text = find("support").content.decode()
    assert "Workload" in text and "Dataset" in text and "Model" in text
    assert b"Nothing has that name" in find("zebra<script>").content
    assert b"<script>" not in find("zebra<script>").content.split(b"<body")[1]
