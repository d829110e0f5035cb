"""A real browser before a real, streaming server on the test's own database. Left out where Chromium is missing."""

import os
import shutil
import socket
import threading
import time

import pytest
from playwright.sync_api import expect

PATIENCE_MILLISECONDS = 30_000
"""For a page of a machine that does much else; nothing waits so long where all is well."""
expect.set_options(timeout=PATIENCE_MILLISECONDS)
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # Playwright keeps an event loop in this thread
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]


def pytest_collection_modifyitems(items):
    if CHROMIUM is None and not os.environ.get("OPTIMIZE_REQUIRE_BROWSER"):
        for item in items:
            if "tests/browser" in str(item.path):
                item.add_marker(pytest.mark.skip(reason="there is no Chromium here"))


@pytest.fixture(scope="session")
def browser_type_launch_args():
    return {"executable_path": CHROMIUM, "args": QUIET}


@pytest.fixture(scope="session")
def base_url():
    """Each test has a server of its own; this stands in for a plugin's fixture that newer pytest warns about."""


@pytest.fixture
def server(transactional_db):
    """The address of the box's pages, served as the box serves them: by uvicorn, streams and all."""
    import uvicorn
    from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
    from django.db import connections

    from optimize_site.asgi import application

    connections.databases["default"]["CONN_MAX_AGE"] = 0
    door = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(ASGIStaticFilesHandler(application), ws="none", lifespan="off", log_level="warning",
                            timeout_graceful_shutdown=1)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{door.getsockname()[1]}"
    running.should_exit = True
    thread.join(10)


# A request that the next page cut off is no fault of this one.
CUT_OFF = ("htmx:afterRequest", "htmx:sendError", "htmx:sendAbort")


def note(page, message):
    if message.type == "error" and not message.text.startswith(CUT_OFF):
        page.problems.append(message.text)


@pytest.fixture
def signed_in(server, context):
    """Gives the browser the session of somebody with a role; answers the page to drive."""
    from django.test import Client

    from optimize_site.kernel import accounts
    from optimize_site.kernel.auth import LOCAL

    def sign_in(role="operator", **options):
        user, _ = accounts.create_user(f"a-{role}", role, actor=LOCAL)
        client = Client()
        client.force_login(user)
        cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": server}
        context.add_cookies([cookie])
        page = context.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: note(page, message))
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        return page

    return sign_in
