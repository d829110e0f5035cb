"""Uploading from the browser: in shards with progress, on after a reload, refused line by line; images; archives."""

import hashlib
import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests import factories as make
from tests.archives import items, png

RED, BLUE, GREEN = (png(colour=colour) for colour in (b"\xff\0\0", b"\0\0\xff", b"\0\xff\0"))


def choose(page, server, body, name="triage/train", file="t.jsonl"):
    page.goto(f"{server}/datasets/upload")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("File", exact=True).set_input_files(
        {"name": file, "mimeType": "application/octet-stream", "buffer": body})


def upload(page):
    page.get_by_role("button", name="Upload", exact=True).click()


def refused(page):
    return page.locator("[data-upload-refused]").get_by_role("alert")


def row(*paths, text="What is this?"):
    shown = [{"type": "image", "path": path} for path in paths]
    return json.dumps({"messages": [{"role": "user", "content": [*shown, {"type": "text", "text": text}]},
                                    {"role": "assistant", "content": "café"}]}, ensure_ascii=False).encode() + b"\n"


BODY = make.chat_rows(2) + b"\n" + row("images/red.png", "images/sub/blue.png") + row("images/red.png", text="Again?")
"""Two images: the first named by lines 4 and 5, the other by line 4."""


@pytest.fixture
def folder(tmp_path):
    """The folder of a file of rows and their images, among what the rows do not name."""
    root = tmp_path / "invoices"
    files = {"images/red.png": RED, "images/sub/blue.png": BLUE, "blue.png": GREEN, "notes.txt": b"x"}
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    (root / "rows.jsonl").write_bytes(BODY)
    return root


def sends(page):
    """The images and archives that the page sends from here on."""
    sent, kinds = [], re.compile(r"/registry/images$|/versions\?")
    page.on("request", lambda request: sent.append(request.url) if kinds.search(request.url) else None)
    return sent


def registered(page):
    from registry.models import Version

    expect(page).to_have_url(re.compile("/datasets/triage/train"))
    expect(page.get_by_role("main")).to_contain_text("triage/train:v1 is registered.")
    return Version.objects.get()


def as_the_command_registers(folder):
    """The digest and the images of what the command registers from the same folder, under another name."""
    from datasets.queries import KIND, example_set
    from registry.management.commands.registry import Command
    from registry.queries import resolve_version

    assert Command().run(["datasets", "register", "triage/told", "-f", str(folder / "rows.jsonl")]) == 0
    told = resolve_version(KIND, "triage/told:v1")
    return told.digest, example_set(told).details


def test_images_come_from_the_chosen_folder_as_the_command_sends_them(server, signed_in, folder):
    from datasets.models import Image
    from datasets.queries import example_set

    page = signed_in()
    sent = sends(page)
    choose(page, server, BODY, file="rows.jsonl")
    page.get_by_label("Folder").set_input_files(folder)
    upload(page)
    version = registered(page)
    images = [{"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
              for path, data in (("images/red.png", RED), ("images/sub/blue.png", BLUE))]
    assert example_set(version).details == {"images": images}
    assert len(sent) == Image.objects.count() == 2, "what rows do not name was sent"
    assert (version.digest, example_set(version).details) == as_the_command_registers(folder)
    assert page.problems == []


def test_an_image_that_was_not_chosen_is_named_by_its_line_and_nothing_is_registered(server, signed_in, folder):
    from datasets.models import Image
    from registry.models import Version

    page = signed_in()
    choose(page, server, BODY)
    upload(page)
    alert = refused(page)
    expect(alert).to_contain_text("Images that the rows name were not chosen: 2 of 2.")
    expect(alert).to_contain_text("Choose the folder that t.jsonl lies in, or the images themselves, and upload again")
    page.get_by_label("Or single files").set_input_files(folder / "images/red.png")
    upload(page)
    expect(alert).to_contain_text("Images that the rows name were not found among the chosen files: 1 of 2.")
    expect(alert.get_by_role("listitem")).to_have_text("line 4 The image images/sub/blue.png was not chosen.")
    assert not Version.objects.exists() and not Image.objects.exists()
    page.get_by_label("Or single files").set_input_files([folder / "images/red.png", folder / "images/sub/blue.png"])
    upload(page)
    assert len(registered(page).objects_listing) == 3


def test_a_file_that_may_be_two_images_is_refused(server, signed_in, folder):
    from registry.models import Version

    page = signed_in()
    choose(page, server, row("a/red.png", "b/red.png"))
    page.get_by_label("Or single files").set_input_files(folder / "images/red.png")
    upload(page)
    expect(refused(page).get_by_role("listitem")).to_have_text(
        "line 1 red.png may be the image b/red.png or a/red.png.")
    assert not Version.objects.exists()


def test_images_go_on_where_they_were_and_a_bad_one_is_named(server, signed_in, folder):
    from datasets.models import Image

    page, broken = signed_in(), folder / "images/sub/blue.png"
    broken.write_bytes(BLUE[:40])
    sent = sends(page)
    choose(page, server, BODY)
    page.get_by_label("Folder").set_input_files(folder)
    upload(page)
    expect(refused(page)).to_contain_text("images/sub/blue.png: The image ")
    assert len(sent) == 2 and Image.objects.count() == 1
    sent.clear()
    broken.write_bytes(BLUE)
    choose(page, server, BODY)
    page.get_by_label("Folder").set_input_files(folder)
    upload(page)
    registered(page)
    assert len(sent) == 1, "the image that the box kept was sent again"


def test_an_archive_shows_how_far_it_is_and_is_sent_anew_where_it_stopped(server, signed_in):
    page, tries = signed_in(), []

    def stop_the_first_and_hold_the_next(route):
        tries.append(route)
        if len(tries) == 1:
            route.abort()

    page.route("**/versions?*", stop_the_first_and_hold_the_next)
    choose(page, server, items(), file="items.zip")
    page.get_by_label("Alias").fill("current")
    upload(page)
    expect(page.locator("[data-upload-said]")).to_contain_text("trying again")
    expect(page.get_by_role("progressbar", name="Sent")).to_be_visible()
    while len(tries) < 2:
        page.wait_for_timeout(20)
    tries[1].continue_()
    version = registered(page)
    assert version.aliases.get().name == "current" and len(tries) == 2


def test_a_bad_archive_is_refused_beside_the_form_and_a_large_one_before_it_is_sent(server, signed_in, monkeypatch):
    page = signed_in()
    choose(page, server, items(**{"items.jsonl": "not json\n"}), file="items.zip")
    upload(page)
    expect(refused(page)).to_contain_text("line 1")
    expect(page.get_by_role("progressbar", name="Sent")).to_be_hidden()
    monkeypatch.setenv("OPTIMIZE_TRAINER_DATASETS_MAX_BYTES", "100")
    sent = sends(page)
    choose(page, server, items(), file="items.zip")
    upload(page)
    expect(refused(page)).to_contain_text("a ZIP has at most 100.")
    assert sent == []


def test_a_stopped_upload_is_given_up_after_a_question(server, signed_in):
    from datasets.models import Upload

    page = signed_in()
    make.open_upload("triage/train", by="a-operator")
    page.goto(f"{server}/datasets/upload")
    give_up = page.get_by_role("button", name="Give up the upload of triage/train")
    give_up.click()
    page.get_by_role("dialog").get_by_role("button", name="Go back").click()
    assert Upload.objects.exists()
    give_up.click()
    page.get_by_role("dialog").get_by_role("button", name="Give up").click()
    expect(page.get_by_role("main")).to_contain_text("The upload of triage/train was given up.")
    expect(give_up).to_have_count(0)
    assert not Upload.objects.exists() and page.problems == []


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_page_with_a_stopped_upload_and_a_refusal_fits_a_phone_and_is_read_aloud(server, signed_in, colours):
    page = signed_in()
    make.open_upload("triage/a-name-that-is-as-long-as-names-of-teams-become", by="a-operator")
    page.emulate_media(color_scheme=colours, reduced_motion="reduce")
    page.set_viewport_size({"width": 360, "height": 740})
    choose(page, server, row("scans/2026/november/invoices-of-suppliers/a-name-without-an-end-1042.png"))
    upload(page)
    expect(refused(page)).to_contain_text("were not chosen: 1 of 1")
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{wide} pixels wider than the phone"
    faults = [fault["id"] for fault in Axe().run(page).response["violations"]
              if fault["impact"] in {"serious", "critical"}]
    assert faults == []


def test_a_bad_line_of_a_shard_is_named_as_the_line_of_the_file(server, signed_in, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_DATASETS_MAX_BYTES", "4096")
    page, lines = signed_in(), make.chat_rows(200).splitlines(keepends=True)
    lines[149] = b"no row\n"
    choose(page, server, b"".join(lines))
    upload(page)
    expect(refused(page).get_by_role("listitem").first).to_contain_text(
        re.compile(r"^line 150 \(line \d+ of examples-\d{5}\.jsonl\)"))


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
    upload(page)
    expect(page.locator("[data-upload-said]")).to_contain_text("trying again")
    page.unroute("**/shards/**")
    page.on("dialog", lambda dialog: dialog.accept())
    choose(page, server, body)
    expect(page.get_by_role("complementary")).to_contain_text("Not finished yet.")
    received = Shard.objects.count()
    sent.clear()
    page.on("request", lambda request: sent.append(request.url) if request.method == "PUT" else None)
    upload(page)
    expect(page).to_have_url(re.compile("/datasets/triage/train"))
    expect(page.get_by_role("main")).to_contain_text("triage/train:v1 is registered.")
    version = Version.objects.get()
    assert received >= 2 and len(version.objects_listing) == len(sent) + received
    assert version.objects_listing == listing(Upload.objects.get())
    assert version.content_hash == hashlib.sha256(body.strip()).hexdigest()
