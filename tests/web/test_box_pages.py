"""Home, the box, its logs, the docs, the stream of changes."""

import json
import re
from pathlib import Path

import pytest
from django.urls import reverse

from optimize_site.kernel.conf import home
from optimize_site.kernel.docs import list_pages
from tests import factories as make
from tests.web import scenes

pytestmark = pytest.mark.django_db


def test_a_new_box_is_a_checklist_that_ticks_itself_off(viewer):
    text = viewer.get("/").content.decode()
    for step in ("Choose a base model", "Add data", "Make a workload", "Start a run"):
        assert step in text
    assert text.count(">To do<") == 4
    make.make_device("cpu")
    scenes.base_model()
    scenes.workload(6)
    text = viewer.get("/").content.decode()
    assert (text.count(">Done<"), text.count(">To do<")) == (3, 1)
    scenes.submit(steps=12)
    assert "From nothing to a model" not in viewer.get("/").content.decode()


def test_home_says_what_runs_what_waits_and_why_and_what_needs_attention(viewer):
    scenes.busy_box(steps=12, rows=12)
    text = " ".join(viewer.get("/").content.decode().split())
    attention, rest = text.split("Running now")
    now, rest = rest.split("Waiting</h2>")
    waiting, promoted = rest.split("Promoted lately")
    assert "r8-hot" in attention and "The loss was NaN" in attention and "Lower optimizer.learningRate" in attention
    assert "r8-e3-warm" in now and "left" in now and "Evaluation" in now
    assert "r32-e3" in waiting and "slots of cpu are held" in waiting
    assert "support-triage" in promoted and "promoted by ada" in promoted


def test_the_box_page_shows_devices_services_disk_and_logs(viewer):
    make.make_device("cpu", name="A processor")
    (home() / "status.json").write_text(json.dumps({"services": [
        {"name": "web", "state": "failing", "since": 1, "restarts": 3, "pid": 7, "lastError": "ended <b>badly</b>"}]}))
    (home() / "logs").mkdir(exist_ok=True)
    (home() / "logs" / "web.log").write_text("\x1b[31mred\x1b[0m <script>alert(1)</script>\n")
    text = viewer.get("/box").content.decode()
    assert "A processor" in text and "Failing" in text and "ended &lt;b&gt;badly" in text and "web.log" in text
    log = viewer.get(reverse("box:log", args=["web.log"])).content.decode()
    assert "red &lt;script&gt;" in log and "\x1b" not in log
    (home() / "status.json").unlink()


@pytest.mark.parametrize("name", ["nothing.log", "..", "..%2f..%2fsecret_key", ".hidden", "web.log%00", "%2e%2e"])
def test_no_other_file_can_be_read_as_a_log(viewer, name):
    assert viewer.get(f"/box/logs/{name}").status_code == 404


@pytest.mark.parametrize("name", ["nothing", "../README", "..%2fREADME", "requirements/../../README", "a//b", "%00"])
def test_no_other_file_can_be_read_as_a_page_of_the_docs(viewer, name):
    assert viewer.get(f"/docs/{name}").status_code == 404


@pytest.mark.parametrize("name", ["nothing.png", "..%2fquickstart.md", "RUN.png", "%00.png"])
def test_no_other_file_can_be_read_as_a_picture_of_the_docs(viewer, name):
    assert viewer.get(f"/docs/images/{name}").status_code == 404


def test_every_picture_that_a_page_of_the_docs_shows_is_there(viewer):
    shown = {found for page in list_pages() for found in re.findall(
        r'<img [^>]*src="(images/[^"]+)"', viewer.get(f"/docs/{page.name}").content.decode())}
    assert shown
    for picture in shown:
        answer = viewer.get(f"/docs/{picture}")
        assert answer.status_code == 200 and answer["Content-Type"] in {"image/png", "image/svg+xml"}, picture
        assert len(answer.content) < 80_000, picture


def test_every_page_of_the_docs_is_shown_and_its_links_inside_the_docs_lead_somewhere(viewer):
    names = {page.name for page in list_pages()}
    assert "quickstart" in names
    for name in names:
        text = viewer.get(f"/docs/{name}").content.decode()
        assert "<article" in text, name


def test_a_base_model_is_chosen_by_an_admin_and_only_by_one(admin, operator, viewer):
    page = viewer.get(reverse("registry:base-models")).content.decode()
    assert "Needs the role admin" in page
    from registry.base_model_queries import entry_id

    entry = entry_id(scenes.BASE)
    assert operator.post(reverse("registry:select", args=[entry])).status_code == 403
    assert admin.post(reverse("registry:select", args=[entry])).status_code == 302
    assert "Reading the repository" in viewer.get(reverse("registry:base-models")).content.decode()
    assert admin.post(reverse("registry:deselect", args=[entry])).status_code == 302


def test_a_server_that_cannot_stream_says_so_and_pages_poll(viewer):
    assert viewer.get(reverse("box:changes")).status_code == 204
    assert "every 10s" in viewer.get("/").content.decode()


def test_pages_are_light(viewer, settings):
    """At most 120 KB over at most 15 requests, compressed as the box sends them."""
    import gzip

    from django.contrib.staticfiles import finders

    make.make_device("cpu")
    scenes.base_model()
    scenes.workload(6)
    run = scenes.train(12, steps=12)
    for address in ("/", reverse("runs:detail", args=[run.pk]), reverse("runs:new")):
        text = viewer.get(address).content
        files = set(re.findall(r'(?:src|href)="/static/([^"#]+)', text.decode()))
        sizes = [len(gzip.compress(Path(finders.find(file)).read_bytes())) for file in files]
        assert len(files) + 1 <= 15
        assert len(gzip.compress(text)) + sum(sizes) <= 120_000, address
