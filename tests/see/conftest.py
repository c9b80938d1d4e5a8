"""A real browser, and pages for it."""

from __future__ import annotations

import shutil

import pytest

from clearhead.app import App, load
from clearhead.see import Scene, scene_of
from tests.real import MINILM

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
TEXTS = ["The animal did not cross the street because it was too tired.", "Unbelievably, the untrained dog won."]


@pytest.fixture(scope="session")
def chromium():
    """Chromium itself, without a head."""
    api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium):
    """A new tab without a network, which keeps what went wrong in `tab.faults`."""
    context = chromium.new_context(viewport={"width": 1200, "height": 800}, accept_downloads=True)
    page = context.new_page()
    page.faults = []
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("console", lambda message: message.type in ("error", "warning") and page.faults.append(message.text))
    page.on("dialog", lambda dialog: (page.faults.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
    yield page
    context.close()
    assert page.faults == []


@pytest.fixture(scope="session")
def minilm() -> App:
    if MINILM is None:
        pytest.skip("MiniLM is not installed")
    return load(MINILM)


@pytest.fixture(scope="session")
def animals(minilm) -> Scene:
    """Two sentences in MiniLM."""
    return scene_of(minilm.opened, TEXTS, title="animals")
