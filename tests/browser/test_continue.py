"""Going on with a run in a browser: the form works out what would come of it, at any width, and starts it."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from runs.models import Run
from tests.browser.test_in_a_browser import ready
from tests.browser.test_rollouts import OVERFLOW
from tests.web import scenes

RUNTIME = {
    "attempt": 1, "versions": {"python": "3.11.9", "torch": "2.13.0", "transformers": "5.9.0"},
    "trainer": {"updates": 24, "updatesPerEpoch": 12, "sequencesPerUpdate": 8, "sequencesPerPass": 2,
                "warmupUpdates": 0, "processes": 1,
                "computePath": {"kind": "unpadded", "sharePrefix": True, "reason": "plain causal attention"},
                "layout": "Unpadded",
                "changedBySetup": {"model.attentionImplementation": {"before": "sdpa", "after": "optimize_segments"}}},
    "model": {"parametersByType": {"float32": 134_515_008}, "trainableParameters": 2_442_240,
              "adaptedModules": [f"model.layers.{layer}.{name}" for layer in range(30) for name in (
                  "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj")]},
    "rolloutEngine": [],
    "memory": [{"process": "trainer", "moment": moment, "hostBytes": 2**30} for moment in (
        "afterLoad", "afterFirstStep")]}


def test_training_is_continued_from_a_run_s_page(server, signed_in, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    ready()
    run = scenes.complete(scenes.train(24, steps=24, configName="r8"))
    Run.objects.filter(pk=run.pk).update(engine_runtime=RUNTIME)
    page = signed_in("operator")
    page.goto(f"{server}/runs/{run.pk}?tab=settings")
    expect(page.get_by_role("heading", name="What it really runs with")).to_be_visible()
    assert Axe().run(page).violations_count == 0
    page.get_by_role("link", name="Continue training").click()
    page.get_by_label("Learning rate").fill("2e-5")
    plan = page.locator("#plan")
    expect(plan).to_contain_text("hyperparams.optimizer.learningRate")
    assert Axe().run(page).violations_count == 0
    page.set_viewport_size({"width": 360, "height": 780})
    assert page.evaluate(OVERFLOW) <= 0
    plan.get_by_role("button", name="Continue training").click()
    expect(page.get_by_text("The branch is on its way.")).to_be_visible()
    page.goto(f"{server}/runs/{run.pk}?tab=settings")
    assert page.evaluate(OVERFLOW) <= 0
    assert page.problems == []
