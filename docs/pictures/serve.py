"""Take the screenshots of the server's page, in headless Chromium: python docs/pictures/serve.py NAME=FOLDER ...

Starts `clearhead serve` with these models. The picture of a task that no model supports is not updated. The texts fit small
models: a classifier of `examples/reviews.csv`, a translator of `examples/sentences.*`, a language model of
`examples/lighthouse.txt`, and the question answerer of docs/pictures/tune.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
FILLED: dict[str, dict[str, str]] = {
    "classify": {"text": "The dessert was delicious and the host was friendly."},
    "qa": {
        "question": "Who led the office in Ghent?",
        "context": "Initech opened its office in Turin in 1949, led by Karl Benz. Globex opened its office in Ghent in 1950, "
        "led by Ada Byron.",
    },
    "translate": {"text": "A dog is running across the street."},
    "generate": {"prompt": "Monday: the sky was", "max_new_tokens": "60", "temperature": "0.7", "seed": "7"},
    "embed": {},
}
SEEN = ("translate", "qa", "classify", "generate", "embed")  # the first served task of these shows its attention


def shot(tab: Any, name: str, panel: Any = None) -> None:
    """Save a screenshot; with a panel, down to its end."""
    tab.wait_for_timeout(300)
    clip = None
    if panel is not None:
        box, size = panel.bounding_box(), tab.viewport_size
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], box["y"] + box["height"] + 20)}
    tab.screenshot(path=HERE / f"serve-{name}.png", clip=clip)
    print(HERE / f"serve-{name}.png")


def ask(tab: Any, address: str, task: str) -> Any:
    """Open the panel of a task and run its example."""
    tab.goto("about:blank")
    tab.goto(f"{address}#{task}")
    tab.wait_for_selector("main:not([aria-busy])")
    panel = tab.locator(f"#panel-{task}")
    for name, value in FILLED[task].items():
        panel.locator(f"[name={name}]").fill(value)
    panel.locator("textarea").first.press("Control+Enter")
    panel.locator(".actions button").wait_for(timeout=120_000)
    tab.evaluate("document.activeElement.blur()")
    return panel


def take(browser: Any, address: str, tasks: set[str]) -> None:
    tab = browser.new_page(viewport={"width": 1180, "height": 720}, device_scale_factor=1.5)
    for task in (task for task in FILLED if task in tasks):
        panel = ask(tab, address, task)
        if task == "translate":  # a word in the middle, and its attention
            written = panel.get_by_role("toolbar").locator("button")
            written.nth(written.count() // 2).hover()
        shot(tab, task, panel)
    task = next((task for task in SEEN if task in tasks), None)
    if task is not None:
        panel = ask(tab, address, task)
        panel.locator(".actions button").click()
        frame = tab.frame_locator("iframe")
        frame.locator(".from .word").first.wait_for()
        if task == "translate":  # the last layer, cross-attention
            layers = frame.get_by_label("layer")
            layers.select_option(index=layers.locator("option").count() - 1)
            tab.wait_for_timeout(800)
        frame.locator(".from .word").nth(1).hover()
        tab.wait_for_timeout(800)
        shot(tab, "attention")
    tab.close()


def main() -> None:
    """Take the screenshots of all served tasks."""
    from playwright.sync_api import sync_playwright

    models = sys.argv[1:]
    if not models:
        raise SystemExit(__doc__)
    served = subprocess.Popen(
        [sys.executable, "-m", "clearhead.cli", "serve", *models, "--port", "0", "--json", "--quiet"],
        stdout=subprocess.PIPE, text=True, env=os.environ,
    )  # fmt: skip
    with served:
        assert served.stdout is not None
        line = served.stdout.readline()
        if not line:
            raise SystemExit("the server did not start")
        served = json.loads(line)
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
                take(browser, served["address"], {task for model in served["models"] for task in model["tasks"]})
                browser.close()
        finally:
            served.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    main()
