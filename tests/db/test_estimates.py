"""What a dry run says a run would take: from measured runs, analyses, the catalog or arithmetic, each named."""

import json

import pytest
from django.urls import reverse

from datasets.models import Analysis, ExampleSet
from optimize_site.kernel import accounts
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.conf import home
from registry.models import BaseModel
from runs import render
from runs.management.commands import runs as command
from runs.models import Metric, Run
from runs.operations import check_run
from tests.factories import (
    TINY,
    add_to_catalog,
    make_base_model,
    make_dataset,
    make_device,
    make_run,
    make_workload,
    run_document,
)

pytestmark = pytest.mark.django_db
CONFIG = {"num_attention_heads": 4, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128,
          "vocab_size": 400}
ONE_EPOCH = {"hyperparams": {"training": {"epochs": 1}}}


@pytest.fixture
def ready(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    make_device()
    make_workload()
    make_dataset(rows=16)
    make_base_model(facts={"contextLength": 4096, "parameters": 1_000_000})


def estimates(*, analysed=False, **changes):
    if not analysed:
        Analysis.objects.all().delete()
    return check_run(run_document(**changes), actor=LOCAL)["estimates"]


def measured_run(*, tokens=500, seconds=2.0, steps=3, peak=10**9, **changes):
    """A run whose updates each read so many tokens in so many seconds."""
    run = make_run(**changes)
    Run.objects.filter(pk=run.pk).update(phase="COMPLETED", observed_step=steps, data_fit={
        "rows": 16, "totalTokens": 4000, "longest": 300, "validation": None})
    Metric.objects.bulk_create(Metric(run=run, step=step, attempt=1, at=run.created_at, values={
        "tokens": tokens, "step_seconds": seconds, "peak_memory_bytes": peak + step}) for step in range(1, steps + 1))
    return run


def test_without_any_run_the_figures_are_computed_and_say_so(ready):
    BaseModel.objects.update(facts={"contextLength": 4096, "parameters": 10**11})
    found = estimates(config=ONE_EPOCH)
    assert (found["steps"]["value"], found["steps"]["source"]) == (2, "computed")
    assert found["tokensPerEpoch"]["source"] == "computed" and "4 of its" in found["tokensPerEpoch"]["note"]
    assert found["seconds"]["value"] > 0
    assert found["seconds"]["source"] == "computed" and "Not measured" in found["seconds"]["note"]


def test_measured_runs_of_the_same_base_and_device_give_the_pace_and_their_rows_the_tokens(ready):
    run = measured_run()
    found = estimates(config=ONE_EPOCH)
    assert (found["tokensPerSecond"]["value"], found["tokensPerSecond"]["source"]) == (250, "measured")
    assert run.pk[:12] in found["tokensPerSecond"]["note"] and "on this data" in found["tokensPerSecond"]["note"]
    assert found["tokensPerEpoch"]["value"] == 4000
    assert found["seconds"]["value"] == pytest.approx(16.0)


def test_runs_on_other_data_count_where_none_trained_on_this(ready):
    measured_run()
    make_dataset("triage/other", 40)
    found = estimates(config=ONE_EPOCH | {"dataset": "triage/other"})
    assert "on other data" in found["tokensPerSecond"]["note"]
    assert found["tokensPerEpoch"]["source"] == "computed"


@pytest.mark.parametrize("apart", [{"model": {"precision": "INT4"}}, {"model": {"gradientCheckpointing": True}}])
def test_runs_that_computed_otherwise_do_not_count(ready, apart):
    measured_run(config=apart)
    assert estimates(config=ONE_EPOCH)["tokensPerSecond"]["source"] == "computed"


def test_the_catalogs_measurement_comes_before_arithmetic(ready):
    add_to_catalog("base_models", f'[["{TINY}".envelopes]]\ndevice_profile = "cpu"\nmethods = ["sft"]\n'
                   'precisions = ["BF16"]\nengines = ["trl"]\nmax_seq_length = 4096\nmax_pass_tokens = 8192\n'
                   'tokens_per_second = 123.0\n')
    found = estimates()["tokensPerSecond"]
    assert (found["value"], found["source"]) == (123.0, "catalog")


def test_an_analysis_under_this_base_model_counts_the_tokens(ready):
    Analysis.objects.create(examples=ExampleSet.objects.get(), repository=TINY, revision="rev-1", product_version="1",
                            phase="COMPLETED", report={"totalTokens": 3210, "lengths": {"longest": 99}})
    found = estimates(analysed=True)["tokensPerEpoch"]
    assert (found["value"], found["source"]) == (3210, "analysis")


def test_nothing_is_guessed_for_a_base_model_without_parameters(ready):
    BaseModel.objects.update(facts={"contextLength": 4096})
    found = estimates()
    assert (found["seconds"]["value"], found["seconds"]["source"]) == (None, "unknown")
    assert "parameters" in found["seconds"]["note"]
    assert found["memory"]["host"]["bytes"] is None


def test_cost_follows_the_catalogs_rate_and_is_unknown_without_one(ready):
    measured_run()
    assert estimates()["cost"]["value"] is None
    add_to_catalog("devices", '[cpu]\ntitle = "x"\nkind = "cpu"\nslots = 2\nrate_per_device_hour = 3.6\n')
    found = estimates(config=ONE_EPOCH)
    assert found["cost"]["value"] == pytest.approx(0.016)
    assert "3.6 a device hour" in found["cost"]["note"]


@pytest.mark.requirement("R366")
def test_a_run_keeps_its_predicted_peak_and_shows_it_by_part_beside_the_measured_one(ready, capsys, client):
    foreseen = estimates()["memory"]["host"]
    run = measured_run(peak=10**6)
    Run.objects.filter(pk=run.pk).update(data_fit=None)
    split = {"memory_weights_bytes": 9 * 2**20, "memory_rest_bytes": 2**20}
    Metric.objects.create(run=run, step=4, attempt=1, at=run.created_at, values={
        "peak_memory_bytes": 10 * 2**20} | split)
    memory = render.run_document(Run.objects.get(pk=run.pk))["memory"]
    assert {"weights", "adapter", "gradients", "optimizer", "activations"} <= set(memory["predicted"]["parts"])
    assert memory["predicted"] == foreseen
    assert memory["measured"] == {"bytes": 10 * 2**20, "step": 4, "parts": {"weights": 9 * 2**20, "rest": 2**20}}
    assert estimates()["memory"]["measured"] == memory["measured"] | {"runId": run.pk}
    command.Command().run(["get", run.pk])
    assert "10.0 MiB = weights 9.0 MiB + rest 1.0 MiB at update 4" in capsys.readouterr().out
    client.force_login(accounts.create_user("a-viewer", "viewer", actor=LOCAL)[0])
    page = client.get(reverse("runs:detail", args=[run.pk]), {"tab": "data"}).content.decode()
    assert '<th scope="row">Weights</th>' in page and "9.0 MiB" in page


def test_memory_is_split_by_the_shape_of_the_prepared_model_with_the_measured_peak_beside_it(ready):
    run = measured_run(config=ONE_EPOCH)
    folder = home() / "base-models/tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    memory = estimates(config=ONE_EPOCH)["memory"]
    assert memory["device"] is None
    parts = memory["host"]["parts"]
    assert parts["weights"] == 4_000_000
    assert parts["adapter"] == parts["gradients"] == parts["optimizer"] / 2 > 0
    assert memory["host"]["bytes"] == sum(parts.values())
    assert memory["measured"] == {"bytes": 10**9 + 3, "step": 3, "parts": {}, "runId": run.pk}


def test_what_a_damaged_folder_holds_is_unknown_and_stops_nothing(ready):
    folder = home() / "base-models/tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("[1")
    assert estimates()["memory"]["host"]["parts"]["activations"] is None


def test_each_setting_behind_the_figures_is_named_stated_or_default(ready):
    named = {row["setting"]: row["from"] for row in estimates(config=ONE_EPOCH)["settings"]}
    assert (named["training.epochs"], named["config.maxSeqLength"]) == ("stated", "default")


def test_a_descriptor_without_anything_has_estimates_that_say_what_is_missing(ready):
    found = check_run({"kind": "run"}, actor=LOCAL)["estimates"]
    assert {found[name]["source"] for name in ("steps", "seconds", "cost")} == {"unknown"}
    assert all(found[name]["note"] for name in ("steps", "seconds", "cost"))


def test_a_reinforcement_run_s_time_counts_each_prompt_once_and_its_completions(ready):
    found = estimates(config={"method": "grpo", "rlHyperparams": {"maxSteps": 3}})
    assert (found["steps"]["value"], found["steps"]["source"]) == (3, "computed")
    assert "read once with 4 completions of at most 256 tokens" in found["tokensPerEpoch"]["note"]
    tokens = ExampleSet.objects.get(num_examples=16).size_bytes // 4 + 16 * 4 * 256
    assert found["tokensPerEpoch"]["value"] == tokens
    # 16 prompts are 2 updates of 8 an epoch.
    assert found["seconds"]["value"] == pytest.approx(tokens * 3 / 2 / found["tokensPerSecond"]["value"], abs=0.1)
    assert found["memory"]["host"]["parts"].keys() >= {"generation", "activations"}


def test_on_a_gpu_the_arithmetic_reads_a_prompt_once_a_completion(ready):
    make_device("h200", kind="cuda")

    def arithmetic(**rl):
        stated = {"method": "grpo", "rlHyperparams": {"maxCompletionLength": 1, "klBeta": 0, **rl}}
        note = estimates(config=stated, execution={"deviceProfile": "h200"})["tokensPerSecond"]["note"]
        return float(note.removeprefix("Not measured: ").split()[0])

    rows = ExampleSet.objects.get(num_examples=16).size_bytes // 4
    assert arithmetic(groupSize=8) == pytest.approx(6 * 8 * (rows + 16) / (rows + 8 * 16), rel=0.01)


def test_the_command_prints_every_figure_with_its_origin(ready, capsys, tmp_path):
    from runs.management.commands.runs import Command

    run = measured_run()
    Analysis.objects.all().delete()
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_document(config=ONE_EPOCH)))
    assert Command().run(["start", "-f", str(file), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert "Estimates" in printed
    assert "about 16s (measured)" in printed and run.pk[:12] in printed
    assert "unknown: Nobody stated what an hour of cpu costs" in printed
