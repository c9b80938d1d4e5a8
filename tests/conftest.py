import contextlib
import importlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

from clearhead.files.s3_path import S3Path
from clearhead.pipeline import Pipeline, load
from tests.object_store import KEYS, new_bucket, s3_server
from tests.real import MINILM

settings.register_profile(
    "house",
    deadline=None,
    max_examples=100,
    derandomize=True,  # the same examples everywhere; a failure on one machine is a failure on all
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("house")

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


WORKER = "PYTEST_XDIST_WORKER" in os.environ
if WORKER:  # the cores are the workers'; so are those of every process they start
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"


def pytest_configure() -> None:
    """Matplotlib's list of fonts is written once, before workers wait for each other's lock on it.

    A shell starts background jobs with Ctrl-C ignored, and their children inherit it: tests that send it need it back.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not WORKER:
        with contextlib.suppress(ImportError):
            importlib.import_module("matplotlib.font_manager")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1 if WORKER else 2)


@pytest.fixture
def popen() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a process that does not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: Any, **options: Any) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(*args, text=True, **options))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of an S3 server."""
    with s3_server() as address:
        yield address


@pytest.fixture
def bucket(s3_endpoint, tmp_path, monkeypatch) -> S3Path:
    """A new bucket of an S3 server, at the endpoint of the environment; the cache is a new folder."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": s3_endpoint, "CLEARHEAD_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    return new_bucket()


@pytest.fixture(scope="session")
def minilm() -> Pipeline:
    if MINILM is None:
        pytest.skip("MiniLM is not installed")
    return load(MINILM)


@pytest.fixture(scope="module")
def chromium():
    """Chromium itself, without a head; while it is there this thread has a running event loop, so not for longer."""
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
