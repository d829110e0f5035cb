"""Models by their ID, in the form from before they had names."""

import json

import pytest
from django.test import Client

from evaluations.management.commands.trained_models import Command
from evaluations.models import Evaluation
from evaluations.operations.evaluations import Request, start_evaluation
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from tests import factories as make
from tests.adapters import adapter_folder

pytestmark = pytest.mark.django_db
ROUTE = "/v1/trained-models"


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


@pytest.fixture
def models():
    base = make.put_weights(make.make_base_model())
    other = make.put_weights(make.make_base_model("acme/other", folder="base-models/other"))
    make.make_dataset("triage/eval", 3)
    run = make.make_run(phase="COMPLETED")
    model = make.make_adapter(run.workload, base, run_id=run.pk, method="sft", configHash=run.config_hash)
    row = start_evaluation(Request(model=model.pk, dataset="triage/eval"), actor=LOCAL).evaluation
    Evaluation.objects.filter(pk=row.pk).update(phase="COMPLETED", mean_score=0.75)
    return {"base": base.version, "other": other.version, "model": model, "run": run, "evaluation": row}


def listed(client, **query):
    return {row["reference"] for row in client.get(ROUTE, query).json()["models"]}


def test_the_list_is_narrowed_by_one_of_three(client, models):
    assert listed(client) == {"acme/tiny:v1", "acme/other:v1", "triage/tiny:v1"}
    assert listed(client, workload="triage") == listed(client, project="triage") == {"triage/tiny:v1"}
    assert listed(client, baseModel="acme/tiny") == {"acme/tiny:v1", "triage/tiny:v1"}
    assert listed(client, baseModelId=models["base"].pk[:12]) == {"triage/tiny:v1"}
    assert listed(client, baseModelId=models["other"].pk) == set()
    both = client.get(ROUTE, {"workload": "triage", "baseModel": "acme/tiny"})
    assert (both.status_code, both.json()["code"]) == (400, "filters_conflict")
    assert client.get(ROUTE, {"baseModelId": models["model"].pk}).json()["code"] == "not_a_base_model"


def test_a_model_tells_its_configuration_lineage_cost_and_scores(client, models):
    found = client.get(f"{ROUTE}/{models['model'].pk[:12]}").json()
    assert (found["method"], found["runId"], found["config"]["maxSeqLength"]) == ("SFT", models["run"].pk, 2048)
    assert found["cost"]["deviceSeconds"] == 0
    assert [row["meanScore"] for row in found["evaluations"]] == [0.75]
    assert "acme/tiny:v1" in {row["reference"] for row in found["parents"]}
    base = client.get(f"{ROUTE}/{models['base'].pk}").json()
    assert (base["config"], base["cost"], base["method"]) == (None, None, None)


def test_every_verb_of_the_command(models, capsys, tmp_path):
    run = Command().run
    assert run(["list", "--json", "modelId,baseModel,runId,method", "--workload", "triage"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"modelId": models["model"].pk, "baseModel": "acme/tiny",
                                                    "runId": models["run"].pk, "method": "SFT"}]
    assert run(["list"]) == 0
    assert run(["get", models["model"].pk[:12]]) == 0
    shown = capsys.readouterr().out
    assert "device seconds" in shown and "0.7500" in shown
    assert run(["annotate", models["model"].pk, "--description", "the good one"]) == 0
    assert "the good one" in capsys.readouterr().out
    (tmp_path / "base.json").write_text('{"servingModel": {"variant": "BASE", "baseModel": "acme/tiny"}}')
    assert run(["register", "-f", str(tmp_path / "base.json")]) == 0
    assert capsys.readouterr().out.strip() == models["base"].pk
    folder = adapter_folder(tmp_path / "adapter")
    (tmp_path / "adapter.json").write_text('{"servingModel": {"variant": "ADAPTER", "baseModel": "acme/tiny"}}')
    assert run(["register", "-f", str(tmp_path / "adapter.json"), "--adapter", str(folder)]) == 0
    made = capsys.readouterr().out.strip()
    assert run(["get", made, "--json", "reference"]) == 0
    assert json.loads(capsys.readouterr().out) == {"reference": "default/tiny:v1"}
    assert run(["get", "feedfeedfeed"]) == 4
