"""Promotion on evidence, scores by configuration, flipped rows, on every way to ask for them."""

import json

import pytest
from django.test import Client

from evaluations.comparison import compare_models
from evaluations.models import Evaluation
from evaluations.operations.evaluations import Request, start_evaluation
from evaluations.operations.promotion import promote
from evaluations.scores import scores_table
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.errors import Forbidden, OperationError
from optimize_site.kernel.models import Event
from optimize_site.kernel.scores import best_scores_of_models
from registry.management.commands.registry import Command as Registry
from registry.management.commands.workloads import Command
from registry.model_queries import get_model
from registry.operations.artifacts import set_alias
from registry.operations.workloads import set_evaluation, set_reference
from registry.workload_queries import references_of
from tests.factories import (
    make_adapter,
    make_base_model,
    make_dataset,
    make_device,
    make_run,
    make_workload,
    put_weights,
    run_job,
)

pytestmark = pytest.mark.django_db
TEMPLATE, ROUTE = "t" * 64, "/v1/training/workloads/triage"
ROWS = 20


def row(number):
    return {"messages": [{"role": "user", "content": f"ticket {number}"},
                         {"role": "assistant", "content": json.dumps({"queue": f"q{number % 3}"})}]}


@pytest.fixture
def base():
    make_device()
    return put_weights(make_base_model(facts={"chatTemplateSha256": TEMPLATE}))


@pytest.fixture
def workload(base):
    make_dataset("triage/eval", b"".join(json.dumps(row(n)).encode() + b"\n" for n in range(ROWS)))
    return make_workload(dataset="eval")


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def evaluate(model, right, **stated):
    """Score a model on the workload's rows: the first `right` of them right."""
    started = start_evaluation(Request(model, workload="triage", **stated), actor=LOCAL).evaluation
    run_job(*({"type": "answer", "position": n, "system": "candidate", "prompt": row(n)["messages"][:1],
               "expected": row(n)["messages"][1]["content"], "prompt_tokens": 5, "completion_tokens": 5,
               "answer": json.dumps({"queue": f"q{n % 3}" if n < right else "wrong"}), "finish": "stop",
               "chat_template_sha256": TEMPLATE, "base_model_revision": "rev-1"} for n in range(ROWS)),
            {"type": "finished", "answers": ROWS})
    return Evaluation.objects.get(pk=started.pk)


@pytest.fixture
def first(workload, base):
    return make_adapter(workload, base, run_id="a" * 64)


@pytest.fixture
def second(workload, base, first):
    return make_adapter(workload, base, run_id="b" * 64)


@pytest.mark.requirement("R021", "R024")
def test_a_scored_model_becomes_champion_with_who_when_and_the_evidence(workload, first):
    evaluate("acme/tiny", 5)
    own = evaluate("triage/tiny:v1", 15)
    reference = promote(workload, first, actor=Actor("olga", "operator"), note="good")
    assert (reference.version, reference.moved_by) == (first, "olga")
    assert reference.evidence["evaluation"]["evaluationId"] == own.pk
    assert (reference.evidence["evaluation"]["meanScore"], reference.evidence["base"]["meanScore"]) == (0.75, 0.25)
    assert reference.evidence["againstBase"]["difference"] == 0.5
    assert reference.evidence["againstBase"]["decided"]
    event = Event.objects.get(type="workload.promoted")
    assert (event.actor, event.reason, event.data["model"]) == ("olga", "good", "triage/tiny:v1")
    assert get_model("triage/tiny:champion") == first


@pytest.mark.requirement("R024")
def test_without_a_score_on_the_workloads_own_dataset_it_is_refused(workload, first):
    with pytest.raises(OperationError) as refused:
        promote(workload, first, actor=LOCAL)
    assert refused.value.code == "no_evidence"
    assert "evaluations start --model triage/tiny:v1 --workload triage" in refused.value.hint
    make_dataset("triage/other", json.dumps(row(1)).encode() + b"\n")
    evaluate("triage/tiny:v1", 20)
    set_evaluation(workload, dataset="other", actor=LOCAL)
    with pytest.raises(OperationError):
        promote(workload, first, actor=LOCAL)


@pytest.mark.requirement("R024")
def test_it_must_beat_the_champion(workload, first, second):
    evaluate("triage/tiny:v1", 15)
    evaluate("triage/tiny:v2", 15)
    promote(workload, first, actor=LOCAL)
    with pytest.raises(OperationError) as refused:
        promote(workload, second, actor=LOCAL)
    assert refused.value.code == "not_better"
    assert "0.7500" in refused.value.detail
    evaluate("triage/tiny:v2", 16)
    evidence = promote(workload, second, actor=LOCAL).evidence
    assert evidence["champion"]["meanScore"] == 0.75
    assert evidence["againstChampion"] | {"better": 1, "worse": 0, "decided": False} == evidence["againstChampion"]


def test_force_needs_a_reason_and_leads_back_to_an_earlier_champion(workload, first, second):
    evaluate("triage/tiny:v1", 10)
    evaluate("triage/tiny:v2", 15)
    promote(workload, first, actor=LOCAL)
    promote(workload, second, actor=LOCAL)
    with pytest.raises(OperationError) as refused:
        promote(workload, first, actor=LOCAL, force=True)
    assert refused.value.code == "note_required"
    reference = promote(workload, first, actor=LOCAL, force=True, note="v2 is rude")
    assert reference.version == first
    assert (reference.evidence["forced"], reference.evidence["note"]) == (True, "v2 is rude")


def test_promoting_the_champion_again_changes_nothing(workload, first):
    evaluate("triage/tiny:v1", 10)
    promote(workload, first, actor=LOCAL)
    before = Event.objects.count()
    promote(workload, first, actor=LOCAL)
    assert Event.objects.count() == before


def test_a_base_model_can_be_the_champion_until_something_beats_it(workload, base, first):
    evaluate("acme/tiny", 12)
    evaluate("triage/tiny:v1", 10)
    promote(workload, base.version, actor=LOCAL)
    with pytest.raises(OperationError):
        promote(workload, first, actor=LOCAL)


def test_only_one_model_of_the_workload_carries_the_alias(workload, first, base):
    evaluate("triage/tiny:v1", 10)
    promote(workload, first, actor=LOCAL)
    other = put_weights(make_base_model("acme/small", folder="base-models/small",
                                        facts={"chatTemplateSha256": TEMPLATE}))
    better = make_adapter(workload, other, run_id="d" * 64)
    evaluate("triage/small", 11)
    promote(workload, better, actor=LOCAL)
    assert get_model("triage/small:champion") == better
    with pytest.raises(OperationError):
        get_model("triage/tiny:champion")


def test_a_viewer_promotes_nothing(workload, first):
    with pytest.raises(Forbidden):
        promote(workload, first, actor=Actor("vic", "viewer"), force=True, note="please")


@pytest.mark.parametrize("ask", ["reference", "alias", "operation", "route", "refs route", "command",
                                 "refs command", "alias command"])
def test_every_way_to_ask_is_the_same_promotion(workload, first, client, ask):
    def post(path, **body):
        return client.post(path, json.dumps(body), content_type="application/json").status_code == 200

    ways = {
        "reference": lambda: _did(lambda: set_reference(workload, "champion", "triage/tiny", actor=LOCAL)),
        "alias": lambda: client.put("/v1/registry/models/triage/tiny/aliases/champion", json.dumps({"version": "v1"}),
                                    content_type="application/json").status_code == 200,
        "operation": lambda: _did(lambda: set_alias(first.artifact, "champion", first, actor=LOCAL)),
        "route": lambda: post(f"{ROUTE}/promote", model="triage/tiny"),
        "refs route": lambda: post(f"{ROUTE}/refs/champion", model="triage/tiny"),
        "command": lambda: Command().run(["promote", "triage", "triage/tiny"]) == 0,
        "refs command": lambda: Command().run(["refs", "set", "triage", "champion", "triage/tiny"]) == 0,
        "alias command": lambda: Registry().run(["models", "alias", "set", "triage/tiny:champion", "--version",
                                                 "v1"]) == 0,
    }
    assert not ways[ask]()
    assert references_of(workload) == {}
    evaluate("triage/tiny:v1", 10)
    assert ways[ask]()
    assert references_of(workload)["champion"].version == first
    assert get_model("triage/tiny:champion") == first
    assert Event.objects.filter(type="workload.promoted").count() == 1


def _did(change):
    try:
        change()
    except OperationError:
        return False
    return True


def test_an_alias_champion_outside_any_workload_is_only_an_alias(base, client):
    answer = client.put("/v1/registry/models/acme/tiny/aliases/champion", json.dumps({"version": "v1"}),
                        content_type="application/json")
    assert answer.json()["version"] == "v1"


@pytest.mark.requirement("R048", "R050")
def test_scores_stand_by_base_model_and_configuration_under_the_newest_name(workload, base):
    runs = [make_run(configName=name) for name in ("old name", "new name")]
    evaluate("acme/tiny", 4)
    for run, right in zip(runs, (8, 12), strict=True):
        model = make_adapter(workload, base, run_id=run.pk, configHash=run.config_hash)
        type(run).objects.filter(pk=run.pk).update(model=model)
        evaluate(model.pk, right)
    table = scores_table(workload)
    assert (table["dataset"], table["grader"]) == ("triage/eval:v1", "json-label-match")
    [shown] = table["tables"]
    assert (shown["baseModel"], shown["baseRevision"]) == ("acme/tiny", "rev-1")
    assert shown["baseline"]["meanScore"] == 0.2
    [entry] = shown["configurations"]
    assert (entry["configHash"], entry["configName"], entry["best"]) == (runs[0].config_hash, "new name", 0.6)
    assert [run["meanScore"] for run in entry["runs"]] == [0.4, 0.6]
    scores = best_scores_of_models([entry["runs"][0]["modelId"], "f" * 64])
    assert [score["meanScore"] for score in scores.values()] == [0.4]


@pytest.mark.requirement("R050")
def test_a_new_start_of_the_recipe_lists_earlier_runs_with_their_scores(workload, base):
    from runs.queries import previous_runs

    run = make_run()
    model = make_adapter(workload, base, run_id=run.pk, configHash=run.config_hash)
    type(run).objects.filter(pk=run.pk).update(model=model)
    evaluate(model.pk, 10)
    [earlier] = previous_runs(run.config_hash, run.base_model)
    assert (earlier["runId"], earlier["score"]["meanScore"]) == (run.pk, 0.5)


def test_another_dataset_starts_another_table_and_the_old_one_can_be_asked_for(workload, first):
    evaluate("triage/tiny:v1", 10)
    make_dataset("triage/other", json.dumps(row(1)).encode() + b"\n")
    set_evaluation(workload, dataset="other", actor=LOCAL)
    workload.refresh_from_db()
    assert scores_table(workload)["tables"] == []
    assert best_scores_of_models([first.pk]) == {}
    old = get_model("triage/tiny").evaluations.get().dataset
    assert len(scores_table(workload, dataset=old)["tables"]) == 1


def test_flipped_rows_show_both_answers_and_the_paired_difference(workload, first, second):
    evaluate("triage/tiny:v1", 10)
    evaluate("triage/tiny:v2", 17)
    found = compare_models(workload, first, second)
    assert [flip["position"] for flip in found["flips"]] == list(range(10, 17))
    flip = found["flips"][0]
    assert (flip["direction"], flip["a"]["answer"], flip["b"]["answer"]) == (
        "better", '{"queue": "wrong"}', '{"queue": "q1"}')
    assert flip["prompt"] == [{"role": "user", "content": "ticket 10"}]
    paired = found["paired"]
    assert (paired["rows"], paired["difference"], paired["better"], paired["worse"]) == (ROWS, 0.35, 7, 0)
    assert paired["decided"] and 0 < paired["interval"][0] < 0.35 < paired["interval"][1]
    assert compare_models(workload, second, first)["flips"][0]["direction"] == "worse"


def test_scores_and_flips_over_the_api_and_by_command(workload, first, second, client, capsys):
    evaluate("triage/tiny:v1", 10)
    assert client.get(f"{ROUTE}/flips?a=triage/tiny:v1&b=triage/tiny:v2").json()["code"] == "not_comparable"
    evaluate("triage/tiny:v2", 17)
    assert client.get("/v1/training/projects/triage/scores").json()["tables"][0]["baseModel"] == "acme/tiny"
    assert client.get(f"{ROUTE}/flips?a=triage/tiny:v1&b=triage/tiny:v2").json()["paired"]["better"] == 7
    assert Command().run(["scores", "triage"]) == 0
    assert "0.8500 [" in capsys.readouterr().out
    assert Command().run(["flips", "triage", "triage/tiny:v1", "triage/tiny:v2", "--limit", "3"]) == 0
    shown = capsys.readouterr()
    assert "+0.3500" in shown.out and "4 more rows flipped" in shown.err
    assert Command().run(["promote", "triage", "triage/tiny:v2"]) == 0
    assert "0.8500" in capsys.readouterr().out
    assert client.get(ROUTE).json()["references"]["champion"]["reference"] == "triage/tiny:v2"
