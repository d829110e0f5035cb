"""The page of a dataset of token rows, of items, of images: what it holds, in its own words."""

import json

import pytest
from django.urls import reverse

from datasets.images import put_image, put_manifest
from datasets.operations import register_dataset
from datasets.token_rows import TokenFile, TokenFiles
from optimize_site.kernel.auth import LOCAL
from tests.archives import DIGEST, items, png, prepared

pytestmark = pytest.mark.django_db


def page(client, name):
    return client.get(reverse("datasets:detail", args=["shop", name])).content.decode()


def test_token_rows_show_what_made_them_and_no_tools(viewer, monkeypatch):
    found = TokenFiles([TokenFile(2, 5, 3, [[2, 1], [3, 1]], [[3, 1], [2, 2]])], [], 0)
    monkeypatch.setattr("datasets.formats.prepared.measure_files", lambda paths: found)
    register_dataset("shop/tokens", [prepared()], actor=LOCAL)
    text = page(viewer, "tokens")
    assert "acme/tiny" in text and DIGEST[:12] in text and "Longest row" in text
    assert "Offering tools" not in text


def test_items_are_counted_as_items(viewer):
    register_dataset("shop/items", [items()], actor=LOCAL)
    text = page(viewer, "items")
    assert "<dt>Items</dt><dd>2</dd>" in text and "Offering tools" not in text


def test_a_row_shows_its_image(viewer):
    image, _ = put_image([png()], actor=LOCAL)
    named = json.dumps({"path": "images/a.png", "sha256": image.pk}).encode()
    manifest, _ = put_manifest([named], actor=LOCAL)
    content = [{"type": "image", "path": "images/a.png"}, {"type": "text", "text": "?"}]
    row = {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "x"}]}
    register_dataset("shop/pages", [json.dumps(row).encode()], actor=LOCAL, images=manifest)
    assert f"/v1/registry/images/{image.pk}" in page(viewer, "pages")
    assert viewer.get(f"/v1/registry/images/{image.pk}")["Content-Type"] == "image/png"
