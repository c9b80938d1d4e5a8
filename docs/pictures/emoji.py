"""Draws docs/pictures/emoji.png: emoji by their names, each beside the real one.

python docs/pictures/emoji.py recipes/runs/emoji/model recipes/emoji
"""

import json
import sys
from pathlib import Path

from PIL import Image

import clearhead
from clearhead.viz.style import LIGHT, MUTED, new_figure

SEEN = ("grinning face", "red heart", "cat face", "flag of japan", "pizza", "police officer, dark skin", "blue circle")
HELD_OUT = 5
SEEDS = 6


def main(model: str, folder: Path) -> None:
    """Draw a row for each name: the real image, then one for each seed."""
    parts = {part: [json.loads(line) for line in (folder / f"{part}.jsonl").open()] for part in ("train", "valid")}
    images = {row["text"]: folder / row["image"] for rows in parts.values() for row in rows}
    known = [row["text"] for row in parts["train"]]
    names = [next(text for text in known if name in text) for name in SEEN if any(name in text for text in known)]
    held_out = [row["text"] for row in parts["valid"]][:: max(1, len(parts["valid"]) // HELD_OUT)][:HELD_OUT]
    draws = clearhead.load(model)
    rows = [*((name, "trained on") for name in names), *((name, "held out") for name in held_out)]
    with new_figure(0.75 * (SEEDS + 1) + 3.2, 0.8 * len(rows) + 0.6, "emoji drawn by their names", LIGHT) as figure:
        grid = figure.subplots(len(rows), SEEDS + 2, squeeze=False, width_ratios=[3.2, *[1] * (SEEDS + 1)])
        for line, (name, part) in zip(grid, rows, strict=True):
            line[0].text(0.0, 0.6, name, fontsize=9, va="center")
            line[0].text(0.0, 0.2, part, fontsize=8, va="center", color=MUTED)
            line[1].imshow(Image.open(images[name]).convert("RGB"))
            for seed, axes in enumerate(line[2:], 1):
                axes.imshow(draws.draw([name], seed=seed)[0].permute(1, 2, 0).numpy())
            for axes in line:
                axes.axis("off")
        grid[0][1].set_title("real", fontsize=9, color=MUTED)
        for seed, axes in enumerate(grid[0][2:], 1):
            axes.set_title(f"seed {seed}", fontsize=9, color=MUTED)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
