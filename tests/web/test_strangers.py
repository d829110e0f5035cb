"""Nobody who is not signed in reads or does anything; the routes come from the URL table, so none can be missed."""

import re

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver

from optimize_site.kernel import accounts
from optimize_site.kernel.auth import LOCAL

pytestmark = pytest.mark.django_db
OPEN = {"/healthz", "/readyz", "/login", "/admin/login/"}
SAMPLES = {"int": "1", "path": "x", "slug": "x", "str": "x", "uuid": "00000000-0000-0000-0000-000000000000"}


def every_route(patterns=None, prefix="/"):
    for entry in patterns if patterns is not None else get_resolver().url_patterns:
        route = prefix + str(entry.pattern).removeprefix("^").removesuffix("$").removesuffix(r"\Z")
        if isinstance(entry, URLPattern):
            yield sample(route)
        else:
            yield from every_route(entry.url_patterns, route)


def sample(route):
    route = re.sub(r"<(?:(\w+):)?\w+>", lambda found: SAMPLES[found.group(1) or "str"], route)
    return re.sub(r"\(\?P<\w+>[^)]*\)", "x", route)


@pytest.mark.parametrize("route", sorted(set(every_route())))
def test_a_stranger_is_shown_nothing(route):
    if route in OPEN or route.startswith("/static/"):
        pytest.skip("open to everybody by design")
    client = Client(raise_request_exception=False)
    for method in ("get", "post", "put", "patch", "delete"):
        status = getattr(client, method)(route).status_code
        assert status in {301, 302, 401, 403, 404, 405}, f"{method} {route} answered {status}"
        if status in {301, 302}:
            assert "login" in getattr(client, method)(route).headers["Location"] or route != "/"


def test_health_says_nothing_about_the_box():
    assert Client().get("/healthz").json() == {"status": "ok"}


def test_the_metrics_page_takes_a_token_and_refuses_a_stranger():
    _, text = accounts.issue_token("scraper", accounts.create_user("prom", "viewer", actor=LOCAL)[0].username,
                                   actor=LOCAL)
    assert Client().get("/metrics").status_code == 401
    answer = Client().get("/metrics", headers={"Authorization": f"Bearer {text}"})
    assert b"optimize_device_slots" in answer.content or answer.status_code == 200


@pytest.mark.requirement("R010")
def test_the_api_answers_a_stranger_with_a_problem_document():
    answer = Client().get("/v1/training/info")
    assert (answer.status_code, answer["Content-Type"]) == (401, "application/problem+json")
    assert "tokens create" in answer.json()["hint"]


def test_a_wrong_host_is_refused():
    assert Client().get("/healthz", headers={"Host": "evil.example"}).status_code == 400


def test_a_browser_s_unsafe_request_without_its_csrf_token_is_refused():
    user, _ = accounts.create_user("bob", "admin", actor=LOCAL)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    for method in ("post", "put", "patch", "delete"):
        answer = getattr(client, method)("/v1/box/tokens/x/revoke", content_type="application/json")
        assert answer.status_code in {403, 405}, method


def test_another_site_is_given_no_cors_leave():
    answer = Client().get("/v1/training/info", headers={"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in answer.headers
