"""The whole way from a file to a champion, as somebody goes it who has nothing but a browser."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from tests.e2e.conftest import Box

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
IS_WANTED = CHROMIUM is not None or bool(os.environ.get("OPTIMIZE_REQUIRE_BROWSER"))
WORK_MILLISECONDS = 240_000
expect.set_options(timeout=30_000)


@contextmanager
def signed_in(box: Box) -> Iterator[Page]:
    """A page of a browser that signed in with the password of the box's first start."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.set_default_timeout(30_000)
        page.goto(box.url)
        page.get_by_label("Name", exact=True).fill("admin")
        page.get_by_label("Password").fill(box.password)
        page.get_by_role("button", name="Sign in").click()
        yield page
        browser.close()


def choose_base_model(page: Page, box: Box, repository: str) -> None:
    """Choose it and wait until its weights are there."""
    page.goto(f"{box.url}/box/base-models")
    row = page.get_by_role("row").filter(has_text=repository)
    row.get_by_role("button", name="Choose").click()
    expect(row).to_contain_text("Ready", timeout=WORK_MILLISECONDS)


def upload(page: Page, box: Box, reference: str, file: Path) -> None:
    """Register a file from the disk."""
    page.goto(f"{box.url}/datasets/upload")
    page.get_by_label("Name", exact=True).fill(reference)
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_role("button", name="Upload").click()
    expect(page).to_have_url(re.compile(f"/datasets/{reference}"))


def make_workload(page: Page, box: Box, name: str) -> None:
    """A workload that is judged by its own held-out rows."""
    page.goto(f"{box.url}/workloads-new")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Evaluation data").fill(f"{name}/eval")
    page.get_by_role("button", name="Make workload").click()


def train(page: Page, name: str) -> None:
    """Start a run with the form's defaults and wait until it became a model."""
    page.get_by_role("link", name="New run", exact=True).first.click()
    page.get_by_label("Training data").fill(f"{name}/train")
    page.locator('[name="config.hyperparams.optimizer.learningRate"]').fill("0.005")
    expect(page.locator("#plan")).to_contain_text("Ready to start")
    page.get_by_role("button", name="Start run").click()
    expect(page).to_have_url(re.compile(r"/runs/[0-9a-f]{64}$"))
    expect(page.get_by_role("main")).to_contain_text("It became", timeout=WORK_MILLISECONDS)


def evaluate_and_promote(page: Page, box: Box, name: str) -> None:
    """Score the new model, and make it the champion."""
    page.get_by_role("link", name="Evaluate it").click()
    page.get_by_role("button", name="Start evaluation").click()
    expect(page).to_have_url(re.compile(r"/evaluations/[0-9a-f]{64}$"))
    expect(page.get_by_role("main")).to_contain_text("Completed", timeout=WORK_MILLISECONDS)
    page.goto(f"{box.url}/workloads/{name}")
    page.get_by_role("link", name="Promote").first.click()
    page.get_by_role("button", name="Promote").click()
    expect(page).to_have_url(f"{box.url}/workloads/{name}")
