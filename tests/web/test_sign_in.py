"""The door: who gets in, how guessing is slowed down, and where one lands."""

import pytest
from django.test import Client

from optimize_site.kernel import accounts
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.models import Event

pytestmark = pytest.mark.django_db
PASSWORD = "a long enough pass phrase"


@pytest.fixture
def ada():
    user, _ = accounts.create_user("ada", "operator", password=PASSWORD, actor=LOCAL)
    return user


def sign_in(client, password=PASSWORD, name="ada", **more):
    return client.post("/login", {"username": name, "password": password} | more)


def test_the_right_password_opens_and_the_session_is_a_new_one(ada):
    client = Client()
    client.get("/login")
    before = client.session.session_key
    answer = sign_in(client)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.session.session_key not in {None, before}
    assert client.get("/").status_code == 200


def test_a_wrong_password_and_an_unknown_name_are_refused_alike(ada):
    wrong, unknown = sign_in(Client(), "wrong"), sign_in(Client(), name="nobody")
    assert wrong.status_code == unknown.status_code == 401
    assert b"do not go together" in wrong.content and b"do not go together" in unknown.content


def test_after_five_failures_even_the_right_password_waits(ada):
    client = Client()
    for _ in range(5):
        assert sign_in(client, "wrong").status_code == 401
    answer = sign_in(client)
    assert answer.status_code == 429
    assert b"Too many tries. Wait " in answer.content


def test_somebody_at_another_address_does_not_wait_for_it(ada):
    for _ in range(6):
        sign_in(Client(), "wrong")
    assert sign_in(Client(REMOTE_ADDR="10.0.0.9")).status_code == 302


def test_a_success_forgets_the_failures_before_it(ada):
    client = Client()
    for _ in range(4):
        sign_in(client, "wrong")
    assert sign_in(client).status_code == 302
    assert sign_in(Client(), "wrong").status_code == 401
    assert sign_in(Client()).status_code == 302


def test_what_was_typed_for_a_name_is_not_written_down(ada):
    sign_in(Client(), name="my password in the wrong box")
    assert "wrong box" not in str(list(Event.objects.values_list("data", flat=True)))


def test_one_lands_where_one_wanted_to_go_but_never_elsewhere(ada):
    assert Client().get("/runs")["Location"] == "/login?next=/runs"
    assert sign_in(Client(), next="/runs?phase=open")["Location"] == "/runs?phase=open"
    for trap in ("https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"):
        assert sign_in(Client(), next=trap)["Location"] == "/"


def test_signing_out_needs_a_post_and_ends_the_session(ada):
    client = Client()
    sign_in(client)
    assert client.get("/sign-out").status_code == 405
    assert client.post("/sign-out")["Location"] == "/login"
    assert client.get("/").status_code == 302


def test_a_part_asked_for_by_somebody_signed_out_in_another_tab_sends_to_the_door():
    answer = Client().get("/", headers={"HX-Request": "true"})
    assert answer.status_code == 401
    assert answer["HX-Redirect"].startswith("/login")


def test_the_admin_has_no_door_of_its_own(ada):
    answer = Client().get("/admin/login/")
    assert (answer.status_code, answer["Location"]) == (302, "/login?next=/admin/")
    assert Client().post("/admin/login/", {"username": "ada", "password": PASSWORD}).status_code == 302


def test_the_page_asks_for_nothing_from_elsewhere(ada):
    client = Client()
    sign_in(client)
    answer = client.get("/")
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    text = answer.content.decode()
    assert "<script>" not in text and "onclick" not in text and "//cdn" not in text
