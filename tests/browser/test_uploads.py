"""Uploading from the browser: in shards with progress, going on after a reload, refused line by line."""

import hashlib
import re

from playwright.sync_api import expect

from tests import factories as make


def choose(page, server, body, name="triage/train"):
    page.goto(f"{server}/datasets/upload")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("File", exact=True).set_input_files(
        {"name": "t.jsonl", "mimeType": "application/jsonl", "buffer": body})


def test_a_file_goes_over_in_shards_and_on_after_a_reload(server, signed_in, monkeypatch):
    from datasets.models import Shard, Upload
    from datasets.upload_queries import listing
    from registry.models import Version

    monkeypatch.setenv("OPTIMIZE_TRAINER_DATASETS_MAX_BYTES", "4096")
    body, page, sent = make.chat_rows(200), signed_in(), []

    def stop_at_the_third(route):
        sent.append(route.request.url.rpartition("/")[2])
        return route.continue_() if len(sent) < 3 else route.abort()

    page.route("**/shards/**", stop_at_the_third)
    choose(page, server, body)
    page.get_by_role("button", name="Upload").click()
    expect(page.locator("[data-upload-said]")).to_contain_text("trying again")
    page.unroute("**/shards/**")
    page.on("dialog", lambda dialog: dialog.accept())
    choose(page, server, body)
    expect(page.get_by_role("complementary")).to_contain_text("Not finished yet.")
    received = Shard.objects.count()
    sent.clear()
    page.on("request", lambda request: sent.append(request.url) if request.method == "PUT" else None)
    page.get_by_role("button", name="Upload").click()
    expect(page).to_have_url(re.compile("/datasets/triage/train"))
    expect(page.get_by_role("main")).to_contain_text("triage/train:v1 is registered.")
    version = Version.objects.get()
    assert received >= 2 and len(version.objects_listing) == len(sent) + received
    assert version.objects_listing == listing(Upload.objects.get())
    assert version.content_hash == hashlib.sha256(body.strip()).hexdigest()
