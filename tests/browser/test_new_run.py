"""The guided form in a real browser: another method's fields, a reward built term by term, and the run it starts."""

import pytest

from runs.models import Run
from tests import factories as make
from tests.browser.test_in_a_browser import ready
from tests.web import scenes


@pytest.mark.requirement("R231")
def test_a_reward_is_built_term_by_term_and_its_run_started(server, signed_in, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    ready()
    make.measured(f"{scenes.WORKLOAD}/train", repository=scenes.BASE)
    page = signed_in("operator")
    page.goto(f"{server}/runs/new")
    page.select_option("#f-config-method", "grpo")
    page.fill("#f-config-dataset", f"{scenes.WORKLOAD}/train")
    page.wait_for_selector("text=Add a format term")
    assert page.input_value("#f-config-dataset") == f"{scenes.WORKLOAD}/train", "what was typed meanwhile stays"
    page.click("text=Add a format term")
    page.wait_for_selector("#f-term-1-weight")
    page.click("text=Add a term")
    page.wait_for_selector("#f-term-2-weight")
    page.click('[aria-label="Remove term 3"]')
    page.wait_for_selector("#f-term-2-weight", state="detached")
    assert page.input_value("#f-config-dataset") == f"{scenes.WORKLOAD}/train", "what was filled in stays"
    page.wait_for_selector("text=Ready to start")
    page.click("text=Start run")
    page.wait_for_url(lambda url: not url.endswith("/new"))
    run = Run.objects.get()
    assert [term["weight"] for term in run.config["reward"]["terms"]] == [1, 0.2]
    assert page.problems == []


def test_what_is_typed_into_a_term_while_one_before_it_is_removed_stays_with_its_term(server, signed_in, tmp_path,
                                                                                       monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    ready()
    page = signed_in("operator")
    page.goto(f"{server}/runs/new")
    page.select_option("#f-config-method", "grpo")
    for number in (1, 2):
        page.click("text=Add a term")
        page.wait_for_selector(f"#f-term-{number}-weight")
    held = []
    page.route("**/runs/new/fields", lambda route: held.append(route))
    with page.expect_request("**/runs/new/fields"):
        page.click('[aria-label="Remove term 1"]')
    page.fill("#f-term-0-weight", "7")
    page.fill("#f-term-1-weight", "0.25")
    page.fill("#f-term-2-weight", "0.5")
    held[0].continue_()
    page.wait_for_selector("#f-term-2-weight", state="detached")
    assert [page.input_value(f"#f-term-{number}-weight") for number in (0, 1)] == ["0.25", "0.5"]
    assert page.problems == []
