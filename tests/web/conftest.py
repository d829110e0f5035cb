"""Browsers of people with each role."""

import pytest
from django.test import Client


def browser_of(role: str, **options) -> Client:
    """A signed-in browser of somebody with that role."""
    from optimize_site.kernel import accounts
    from optimize_site.kernel.auth import LOCAL

    user, _ = accounts.create_user(f"a-{role}", role, actor=LOCAL)
    client = Client(**options)
    client.force_login(user)
    return client


@pytest.fixture
def viewer(db) -> Client:
    return browser_of("viewer")


@pytest.fixture
def operator(db) -> Client:
    return browser_of("operator")


@pytest.fixture
def admin(db) -> Client:
    return browser_of("admin")
