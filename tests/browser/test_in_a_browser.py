"""What only a browser can tell: live curves, problems as one types, width, colours, keyboard, accessibility."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests import factories as make
from tests.web import scenes
from tests.web.test_pages import address

MAIN = ("box:home", "evaluations:workloads", "evaluations:workload", "evaluations:promote", "evaluations:workload-new",
        "runs:list", "runs:new", "evaluations:models", "evaluations:model", "datasets:list", "datasets:detail",
        "datasets:analysis", "datasets:upload", "evaluations:list", "evaluations:detail", "evaluations:new", "box:box",
        "registry:base-models", "registry:base-model", "box:docs", "box:search", "runs:compare", "runs:branch",
        "runs:sweep", "runs:snapshot", "runs:rollouts", "evaluations:pipelines", "evaluations:pipeline",
        "evaluations:pipeline-new", "evaluations:comparisons", "evaluations:comparison", "evaluations:comparison-new",
        "evaluations:graders", "evaluations:judges", "evaluations:judge", "runs:continue")


def addresses(box):
    from django.urls import reverse

    judge = make.make_judge(box["second"].model, "evaluation", box["second_score"].pk)
    known = box | {"trial": box["second"], "judge": judge}
    paths = [address(name, known) for name in MAIN]
    paths += [f"{address('runs:detail', known)}?tab={tab}" for tab in ("snapshots", "branches")]
    dataset = address("datasets:detail", known)
    paths += [f"{dataset}?tab={tab}" for tab in ("contents", "lengths", "leakage", "versions", "lineage")]
    return [*paths, *(reverse("runs:detail", args=[box[name].pk]) for name in ("running", "failed", "waiting")),
            reverse("evaluations:detail", args=[box["scoring"].pk])]


def ready():
    make.make_device("cpu")
    scenes.base_model()
    return scenes.workload(12)


IS_DRAWN = """() => {
    const canvas = document.querySelector('[data-names^="loss"] canvas');
    canvas.dataset.mine = 1;
    return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value > 0);
}"""


def test_one_signs_in_with_the_keyboard_alone(server, page):
    from optimize_site.kernel import accounts
    from optimize_site.kernel.auth import LOCAL

    accounts.create_user("ada", "admin", password="a long enough pass phrase", actor=LOCAL)
    page.goto(f"{server}/runs")
    expect(page).to_have_title("Sign in · Optimize")
    page.keyboard.type("ada")
    page.keyboard.press("Tab")
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("do not go together")
    page.keyboard.type("a long enough pass phrase")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server}/runs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()


def test_problems_show_as_one_types_and_a_good_plan_starts(server, signed_in):
    ready()
    page = signed_in()
    page.goto(f"{server}/runs/new")
    page.get_by_label("Training data").fill(f"{scenes.WORKLOAD}/train")
    expect(page.locator("#plan")).to_contain_text("Ready to start")
    page.get_by_label("Adapter rank").fill("-8")
    expect(page.locator("#problem-config-hyperparams-lora-rank")).to_have_text(
        re.compile("lora.rank is -8; it must not be negative."))
    expect(page.get_by_role("button", name="Start run")).to_be_disabled()
    page.get_by_label("Adapter rank").fill("16")
    expect(page.locator("#problem-config-hyperparams-lora-rank")).to_have_text("")
    expect(page.locator("#plan")).to_contain_text("Ready to start")
    page.get_by_role("button", name="Start run").click()
    expect(page).to_have_url(re.compile(r"/runs/[0-9a-f]{64}$"))
    expect(page.get_by_role("main")).to_contain_text("The run is on its way.")
    assert page.problems == []


def test_a_run_draws_its_curves_and_grows_them_without_a_reload(server, signed_in):
    ready()
    run = scenes.train(12, steps=24)
    page = signed_in()
    page.goto(f"{server}/runs/{run.pk}")
    expect(page.locator('[data-names^="loss"]')).to_have_attribute("data-points", "13")
    assert page.evaluate(IS_DRAWN)
    make.tell_job(run.attempt, {"type": "metrics", "step": 13, "values": {"loss": 0.4, "step_seconds": 1.0}})
    expect(page.locator('[data-names^="loss"]')).to_have_attribute("data-points", "14")
    expect(page.locator("#live")).to_contain_text("13 of 24")
    assert page.locator('[data-names^="loss"] canvas').get_attribute("data-mine") == "1"
    expect(page.locator('[data-names^="loss"]').get_by_role("img")).to_have_accessible_name(
        re.compile(r"at update 1, 0\.4 at update 13, least [\d.]+, most [\d.]+"))
    assert page.problems == []


def test_the_last_of_several_quick_changes_is_shown_too(server, signed_in):
    ready()
    run = scenes.train(12, steps=24)
    page = signed_in()
    page.goto(f"{server}/runs/{run.pk}")
    for step in range(13, 20):
        make.tell_job(run.attempt, {"type": "metrics", "step": step, "values": {"loss": 0.4, "step_seconds": 1.0}})
        page.wait_for_timeout(120)
    expect(page.locator("#live")).to_contain_text("19 of 24")


def test_curves_catch_up_after_a_lost_connection(server, signed_in, context):
    ready()
    run = scenes.train(12, steps=24)
    page = signed_in()
    page.goto(f"{server}/runs/{run.pk}")
    expect(page.locator('[data-names^="loss"]')).to_have_attribute("data-points", "13")
    context.set_offline(True)
    make.tell_job(run.attempt, *({"type": "metrics", "step": step, "values": {"loss": 0.4}} for step in (13, 14, 15)))
    expect(page.locator("[data-lost]")).to_be_visible(timeout=20_000)
    context.set_offline(False)
    expect(page.locator('[data-names^="loss"]')).to_have_attribute("data-points", "16", timeout=20_000)
    expect(page.locator("[data-lost]")).to_be_hidden(timeout=20_000)


SEEN = "(is) => { Object.defineProperty(document, 'hidden', {get: () => !is, configurable: true}); " \
       "document.dispatchEvent(new Event('visibilitychange')); }"


def test_runs_beside_each_other_are_drawn_on_one_chart_each_by_its_own_name(server, signed_in):
    ready()
    first = scenes.complete(scenes.train(6, steps=6, configName="first"))
    unstarted = scenes.submit(steps=6, configName="unstarted")
    second = scenes.submit(steps=6, configName="second | third")
    from runs.models import Metric

    Metric.objects.bulk_create([Metric(run=second, step=row.step, attempt=1, values=row.values, at=row.at)
                                for row in first.metrics.all()])
    page = signed_in()
    page.goto(f"{server}/runs/compare?run={first.pk}&run={unstarted.pk}&run={second.pk}")
    expect(page.locator('[data-names^="loss"]')).to_have_attribute("data-points", "12")
    assert page.evaluate(IS_DRAWN)
    legend = page.locator('[data-names^="loss"] .u-legend')
    expect(legend).to_contain_text("first")
    expect(legend).to_contain_text("second / third")
    expect(legend).not_to_contain_text("unstarted")
    assert page.problems == []


def test_a_run_is_paused_from_a_menu_that_says_what_each_way_does(server, signed_in):
    ready()
    run = scenes.train(12, steps=24)
    page = signed_in()
    page.goto(f"{server}/runs/{run.pk}")
    page.locator("summary", has_text="Pause").click()
    expect(page.get_by_text("Nothing is trained twice")).to_be_visible()
    page.get_by_label("Stop at once").check()
    page.get_by_role("button", name="Pause run").click()
    expect(page.locator("#live")).to_contain_text("Pausing: it ends at once")
    make.end_job(run.attempt, "stopped")
    expect(page.get_by_role("button", name="Resume")).to_be_visible(timeout=20_000)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#live")).to_contain_text("Waiting for a device")
    assert page.problems == []


def test_a_page_nobody_sees_holds_no_stream(server, signed_in):
    ready()
    run = scenes.train(12, steps=24)
    page, streams = signed_in(), []
    page.on("request", lambda request: streams.append(request.url) if "/changes/" in request.url else None)
    page.on("requestfailed", lambda request: streams.remove(request.url) if "/changes/" in request.url else None)
    page.goto(f"{server}/runs/{run.pk}")
    expect(page.locator('[data-names^="loss"]')).to_have_attribute("data-points", "13")
    assert len(streams) == 1
    page.evaluate(SEEN, False)
    page.wait_for_timeout(300)
    assert streams == []
    make.tell_job(run.attempt, {"type": "metrics", "step": 13, "values": {"loss": 0.4}})
    page.evaluate(SEEN, True)
    expect(page.locator('[data-names^="loss"]')).to_have_attribute("data-points", "14")
    assert len(streams) == 1


def test_cancelling_asks_first(server, signed_in):
    ready()
    run = scenes.submit(steps=24)
    page = signed_in()
    page.goto(f"{server}/runs/{run.pk}")
    page.get_by_role("button", name="Cancel run").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Cancel this run?")
    dialog.get_by_role("button", name="Go back").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Cancel run").click()
    dialog.get_by_role("button", name="Cancel run").click()
    expect(page.locator("#live")).to_contain_text("Cancelled")


def test_a_bad_upload_is_refused_beside_the_form_and_a_good_one_lands(server, signed_in):
    page = signed_in()
    page.goto(f"{server}/datasets/upload")
    page.get_by_label("Name", exact=True).fill("triage/train")
    bad = {"name": "t.jsonl", "mimeType": "application/jsonl", "buffer": make.chat_rows(2) + b"{}\n"}
    page.get_by_label("File", exact=True).set_input_files(bad)
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("alert").filter(has_text="1 of 3 lines")).to_be_visible()
    page.get_by_label("File", exact=True).set_input_files(bad | {"buffer": make.chat_rows(2)})
    page.get_by_role("button", name="Upload").click()
    expect(page).to_have_url(re.compile("/datasets/triage/train"))
    expect(page.get_by_role("main")).to_contain_text("triage/train:v1 is registered.")


def test_the_whole_way_is_there_for_the_browser_alone(server, signed_in):
    """From a file to a champion with clicks; only the jobs are played."""
    make.make_device("cpu")
    scenes.base_model()
    page = signed_in("admin")
    for name in ("train", "eval"):
        page.goto(f"{server}/datasets/upload")
        page.get_by_label("Name", exact=True).fill(f"{scenes.WORKLOAD}/{name}")
        text = "\n".join(scenes.lines(f"{name}.jsonl", 12)).encode()
        file = {"name": "x.jsonl", "mimeType": "text/plain", "buffer": text}
        page.get_by_label("File", exact=True).set_input_files(file)
        page.get_by_role("button", name="Upload").click()
        expect(page).to_have_url(re.compile(f"/datasets/{scenes.WORKLOAD}/{name}"))
    page.goto(f"{server}/")
    page.get_by_role("link", name="Make one").click()
    page.get_by_label("Name", exact=True).fill(scenes.WORKLOAD)
    page.get_by_label("Evaluation data").fill(f"{scenes.WORKLOAD}/eval")
    page.get_by_role("button", name="Make workload").click()
    page.get_by_role("link", name="New run", exact=True).first.click()
    page.get_by_label("Training data").fill(f"{scenes.WORKLOAD}/train")
    page.get_by_role("button", name="Start run").click()
    expect(page).to_have_url(re.compile(r"/runs/[0-9a-f]{64}$"))
    play_run()
    page.get_by_role("link", name="Evaluate it").click()
    page.get_by_role("button", name="Start evaluation").click()
    expect(page).to_have_url(re.compile(r"/evaluations/[0-9a-f]{64}$"))
    play_evaluation()
    page.goto(page.url)
    page.get_by_role("link", name="Promote").click()
    page.get_by_role("button", name="Promote").click()
    expect(page).to_have_url(f"{server}/workloads/{scenes.WORKLOAD}")
    expect(page.get_by_role("main")).to_contain_text(f"is the champion of {scenes.WORKLOAD}")
    assert page.problems == []


def play_run():
    from runs.models import Run
    from runs.operations import advance_run

    run = Run.objects.get()
    make.finish_analyses()
    advance_run(run.pk)
    run.attempt = make.claim_job()
    make.tell_job(run.attempt, *scenes.training_events(6, 6))
    run.refresh_from_db()
    scenes.complete(run)


def play_evaluation():
    import json
    import random

    attempt = make.claim_job()
    rows = [json.loads(line) for line in scenes.lines("eval.jsonl", 12)]
    make.tell_job(attempt, {"type": "started", "pid": 1, "versions": {}},
                  *[scenes.answer_of(number, row, 0.9, random.Random(1)) for number, row in enumerate(rows)])
    make.end_job(attempt)


@pytest.fixture
def busy(transactional_db):
    box = scenes.busy_box(steps=12, rows=12)
    return box | scenes.lineage(box) | {"rewarded": scenes.submit_rewarded(2)}


ANSWERED = """() => new Promise((done) => {
    document.addEventListener("htmx:afterSettle", done, {once: true});
    htmx.trigger(document.getElementById("live"), "look");
})"""


def test_what_somebody_presses_or_has_opened_outlives_a_fresh_answer(server, signed_in, busy):
    page = signed_in("viewer")
    page.goto(f"{server}/runs/{busy['failed'].pk}")
    evidence, logs = page.locator("#live details").last, page.get_by_role("link", name="See the logs")
    evidence.locator("summary").click()
    logs.hover()
    page.mouse.down()
    page.evaluate(ANSWERED)
    expect(logs).to_be_focused()
    expect(evidence).to_have_attribute("open", "")
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"\?tab=logs$"))


def test_no_page_scrolls_sideways_on_a_phone_and_none_complains(server, signed_in, busy):
    page = signed_in("viewer")
    page.set_viewport_size({"width": 360, "height": 740})
    for path in addresses(busy):
        page.goto(server + path)
        page.wait_for_load_state("load")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} pixels wider than the phone"
        assert page.problems == [], path


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_no_page_has_a_serious_fault_for_assistive_technology(server, signed_in, busy, colours):
    page = signed_in("operator")
    page.emulate_media(color_scheme=colours, reduced_motion="reduce")
    for path in addresses(busy):
        page.goto(server + path)
        page.wait_for_load_state("load")
        found = Axe().run(page).response["violations"]
        serious = [f"{fault['id']}: {[node['html'][:160] for node in fault['nodes'][:3]]}" for fault in found
                   if fault["impact"] in {"serious", "critical"}]
        assert serious == [], f"{path}: {serious}"


def test_the_theme_can_be_turned_and_stays(server, signed_in):
    page = signed_in("viewer")
    page.emulate_media(color_scheme="light")
    page.goto(f"{server}/")
    light = page.evaluate("getComputedStyle(document.body).color")
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate("getComputedStyle(document.body).color") != light
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_slash_finds_and_terms_explain_themselves_to_the_keyboard(server, signed_in):
    ready()
    page = signed_in("viewer")
    page.goto(f"{server}/workloads")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Find a name or ID")).to_be_focused()
    page.keyboard.type(scenes.WORKLOAD + "/train")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/datasets/{scenes.WORKLOAD}/train"))
    page.goto(f"{server}/workloads")
    term = page.locator(".term", has_text="workload").first
    term.focus()
    expect(term.get_by_role("tooltip")).to_be_visible()
    page.keyboard.press("Escape")
    expect(term.get_by_role("tooltip")).to_be_hidden()


def test_pages_serve_a_browser_without_javascript(server, browser, transactional_db):
    from optimize_site.kernel import accounts
    from optimize_site.kernel.auth import LOCAL

    accounts.create_user("ada", "operator", password="a long enough pass phrase", actor=LOCAL)
    ready()
    run = scenes.submit(steps=12)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{server}/runs/{run.pk}")
    page.get_by_label("Name", exact=True).fill("ada")
    page.get_by_label("Password", exact=True).fill("a long enough pass phrase")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Cancel run").click()
    expect(page.get_by_role("main")).to_contain_text("Cancelled")
    context.close()


def test_rows_of_a_dataset_are_read_searched_and_compared_with_what_judges(server, signed_in):
    ready()
    leaky = "\n".join([*scenes.lines("train.jsonl", 30), scenes.lines("eval.jsonl", 1)[0]]).encode()
    make.make_dataset(f"{scenes.WORKLOAD}/leaky", leaky)
    page = signed_in()
    page.goto(f"{server}/datasets/{scenes.WORKLOAD}/leaky")
    expect(page.get_by_role("article")).to_have_count(10)
    page.get_by_role("link", name="Next", exact=True).click()
    expect(page.get_by_role("article", name="Row 10", exact=True)).to_be_visible()
    page.get_by_role("spinbutton", name="Row").fill("30")
    page.get_by_role("button", name="Go").click()
    asked = page.get_by_role("article", name="Row 30", exact=True)
    expect(asked).to_be_visible()
    words = " ".join(asked.locator(".turn.user .said").inner_text().split()[:4])
    page.get_by_role("searchbox", name="Search the rows").fill(words.upper())
    expect(page.get_by_role("article")).to_have_count(1)
    expect(page).to_have_url(re.compile("q="))
    page.get_by_role("link", name="Leakage").click()
    page.get_by_role("link", name="30", exact=True).click()
    expect(asked).to_be_visible()
    assert page.problems == []
