"""Accounts, roles and tokens."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from optimize_site.kernel import accounts
from optimize_site.kernel.auth import LOCAL, Actor, actor_of_token
from optimize_site.kernel.errors import Conflict, Forbidden, InvalidInput, NotFound, Refused
from optimize_site.kernel.models import Event, Token
from optimize_site.kernel.start import first_admin

pytestmark = pytest.mark.django_db
VIEWER = Actor("vera", "viewer", 0)


def make_user(username="bob", role="operator"):
    user, _ = accounts.create_user(username, role, actor=LOCAL)
    return user


def test_the_first_start_makes_an_admin_and_later_ones_do_not():
    assert first_admin()
    assert first_admin() is None


def test_only_an_admin_makes_accounts():
    with pytest.raises(Forbidden):
        accounts.create_user("carl", "viewer", actor=VIEWER)


def test_a_role_that_does_not_exist_is_refused_with_the_ones_that_do():
    with pytest.raises(InvalidInput) as info:
        accounts.create_user("carl", "king", actor=LOCAL)
    assert "viewer" in info.value.hint


def test_a_name_that_is_taken_is_refused():
    make_user()
    with pytest.raises(Conflict):
        make_user()


@pytest.mark.parametrize("name", ["", "../x", "a\0b", "x" * 151, "a\nb"])
def test_a_user_name_that_is_a_path_or_a_control_character_is_refused(name):
    with pytest.raises(InvalidInput):
        accounts.create_user(name, "viewer", actor=LOCAL)


def test_a_weak_password_is_refused_saying_why():
    with pytest.raises(Refused) as info:
        accounts.create_user("carl", "viewer", password="123", actor=LOCAL)
    assert "too short" in info.value.detail


def test_the_last_admin_keeps_the_role_and_stays_active():
    first_admin()
    for act in (lambda: accounts.set_role("admin", "viewer", actor=LOCAL),
                lambda: accounts.set_active("admin", False, actor=LOCAL)):
        with pytest.raises(Refused):
            act()


def test_a_reset_password_signs_in_and_the_old_one_does_not():
    user, old = accounts.create_user("bob", "viewer", actor=LOCAL)
    new = accounts.reset_password("bob", actor=LOCAL)
    user.refresh_from_db()
    assert user.check_password(new)
    assert not user.check_password(old)


def test_a_token_acts_as_its_user_until_it_is_revoked():
    make_user()
    _, text = accounts.issue_token("ci", "bob", actor=LOCAL)
    assert (actor_of_token(text).name, actor_of_token(text).role) == ("bob", "operator")
    accounts.revoke_token("ci", actor=LOCAL)
    assert actor_of_token(text) is None


def test_a_token_is_kept_as_a_hash_only():
    make_user()
    token, text = accounts.issue_token("ci", "bob", actor=LOCAL)
    stored = " ".join(str(value) for value in Token.objects.filter(pk=token.pk).values_list()[0])
    assert text not in stored
    assert text not in " ".join(str(event.data) for event in Event.objects.all())


def test_a_disabled_user_s_token_stands_for_nobody():
    first_admin()
    make_user()
    _, text = accounts.issue_token("ci", "bob", actor=LOCAL)
    accounts.set_active("bob", False, actor=LOCAL)
    assert actor_of_token(text) is None


def test_somebody_else_s_token_needs_an_admin():
    make_user()
    with pytest.raises(Forbidden):
        accounts.issue_token("ci", "bob", actor=VIEWER)


@pytest.mark.parametrize("name", ["", " ", "a/b", "x" * 81, "a\0b", "a\u202eb"])
def test_a_token_s_name_can_be_written_in_an_address(name):
    make_user()
    with pytest.raises(InvalidInput):
        accounts.issue_token(name, "bob", actor=LOCAL)


def test_a_name_that_several_people_gave_a_token_is_each_one_s_own_and_ambiguous_to_an_admin():
    bob, carl = make_user(), make_user("carl")
    for user in (bob, carl):
        accounts.issue_token("laptop", user.username, actor=LOCAL)
    with pytest.raises(Conflict):
        accounts.revoke_token("laptop", actor=LOCAL)
    assert accounts.revoke_token("laptop", actor=Actor("carl", "operator", carl.pk)).user == carl
    with pytest.raises(NotFound):
        accounts.revoke_token("laptop", actor=Actor("carl", "operator", carl.pk))
    assert accounts.revoke_token("laptop", actor=LOCAL).user == bob


def test_who_has_an_account_is_not_told_to_somebody_who_may_not_know():
    for ask in (lambda: accounts.issue_token("ci", "nobody", actor=VIEWER),
                lambda: accounts.reset_password("nobody", actor=VIEWER)):
        with pytest.raises(Forbidden):
            ask()


@pytest.mark.django_db(transaction=True)
def test_two_at_once_make_one_user_and_one_token():
    def together(make):
        with ThreadPoolExecutor(4) as pool:
            return [type(error).__name__ for error in pool.map(lambda _: outcome_of(make), range(4))]

    assert sorted(together(make_user)) == ["Conflict"] * 3 + ["NoneType"]
    assert sorted(together(lambda: accounts.issue_token("ci", "bob", actor=LOCAL))) == ["Conflict"] * 3 + ["NoneType"]


def outcome_of(make):
    try:
        make()
    except Conflict as error:
        return error
    finally:
        connection.close()


def test_a_user_who_does_not_exist_is_not_found():
    with pytest.raises(NotFound):
        accounts.issue_token("ci", "nobody", actor=LOCAL)
