"""Draws a small set of images to try image models on: bright circles, squares and triangles on dark ground.

python examples/draw_shapes.py FOLDER writes FOLDER/train/circle/000.png and so on, 200 of each to train and 40 to test,
and in both parts captions.csv, a table with a caption for each image.
"""

import csv
import random
import sys
from pathlib import Path

from PIL import Image, ImageDraw

SHAPES = ("circle", "square", "triangle")
SIDE = 32


def draw(shape: str, rng: random.Random) -> tuple[Image.Image, str]:
    """Draws a shape of any color and size somewhere on the ground, among a few spots; returns a caption too."""
    ground, color = (tuple(rng.randrange(low, low + 106) for _ in range(3)) for low in (0, 150))
    image = Image.new("RGB", (SIDE, SIDE), ground)
    pen = ImageDraw.Draw(image)
    for _ in range(4):
        x, y = rng.randrange(SIDE), rng.randrange(SIDE)
        pen.rectangle((x, y, x + 1, y + 1), fill=tuple(rng.randrange(256) for _ in range(3)))
    size = rng.randrange(13, 22)
    x, y = rng.randrange(1, SIDE - size - 1), rng.randrange(1, SIDE - size - 1)
    box = (x, y, x + size, y + size)
    if shape == "circle":
        pen.ellipse(box, fill=color)
    elif shape == "square":
        pen.rectangle(box, fill=color)
    else:
        pen.polygon([(x + size / 2, y), (x, y + size), (x + size, y + size)], fill=color)
    place = f"{'upper' if y + size / 2 < SIDE / 2 else 'lower'} {'left' if x + size / 2 < SIDE / 2 else 'right'}"
    return image, f"a {'small' if size < 17 else 'large'} {shape} in the {place} corner"


def main(folder: Path) -> None:
    """Writes all images."""
    rng = random.Random(1)
    for part, count in (("train", 200), ("test", 40)):
        rows = [("image", "caption")]
        for shape in SHAPES:
            (folder / part / shape).mkdir(parents=True, exist_ok=True)
            for i in range(count):
                image, caption = draw(shape, rng)
                image.save(folder / part / shape / f"{i:03}.png")
                rows.append((f"{shape}/{i:03}.png", caption))
        with (folder / part / "captions.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
