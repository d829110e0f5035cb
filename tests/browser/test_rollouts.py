"""A reinforcement run in a browser: its reward's terms drawn by name, its rollouts read at any width and by anybody."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from runs.models import Run
from tests.browser.test_in_a_browser import ready
from tests.web import scenes

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_a_reinforcement_runs_rewards_and_rollouts_are_read_from_curve_to_prompt(server, signed_in, tmp_path,
                                                                                 monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    ready()
    run = scenes.reinforce(12)
    page = signed_in("operator")
    page.goto(f"{server}/runs/{run.pk}?tab=rewards")
    drawn = page.locator("figure", has_text="Reward by term")
    expect(drawn.locator("canvas")).to_be_visible()
    expect(drawn.locator(".u-legend")).to_contain_text("json-label-match")
    expect(page.locator("figure", has_text="Failed scores").locator(".u-legend")).not_to_contain_text("connection")
    page.get_by_role("link", name="Read the rollouts").click()
    expect(page.get_by_role("heading", name="Worst")).to_be_visible()
    assert Axe().run(page).violations_count == 0
    page.get_by_role("link", name="Earlier").click()
    expect(page.get_by_label("Update", exact=True)).to_have_value("11")
    page.get_by_role("link", name="row", exact=False).first.click()
    expect(page.get_by_role("heading", name="The best answers")).to_be_visible()
    assert Axe().run(page).violations_count == 0
    page.set_viewport_size({"width": 360, "height": 780})
    for path in (f"/runs/{run.pk}?tab=rewards", f"/runs/{run.pk}/rollouts", f"/runs/{run.pk}/rollouts/rows/4"):
        page.goto(server + path)
        assert page.evaluate(OVERFLOW) <= 0, path
    assert page.problems == []


def test_the_term_that_was_chosen_stays_while_the_run_goes_on(server, signed_in, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    ready()
    run = scenes.reinforce(12)
    names = [f"t{number}" for number in range(6)]
    Run.objects.filter(pk=run.pk).update(references=run.references | {"reward": [{"name": name} for name in names]})
    page = signed_in("operator")
    page.goto(f"{server}/runs/{run.pk}?tab=rewards")
    page.evaluate("htmx.trigger('#tab-watch', 'look')")
    with page.expect_response(lambda answer: "term=t4" in answer.url):
        page.locator("#map-term").select_option("t4")
    expect(page).to_have_url(f"{server}/runs/{run.pk}?tab=rewards&term=t4")
    # What is asked, not what is answered: the answer to an earlier look may still be on its way.
    with page.expect_request(lambda asked: "tab=rewards" in asked.url) as looked:
        page.evaluate("htmx.trigger('#tab-watch', 'look')")
    assert "term=t4" in looked.value.url
    assert looked.value.response()
    expect(page.locator("#map-term")).to_have_value("t4")
    assert page.problems == []
