from pathlib import Path

import numpy as np
import pytest

from clearhead.data import read_rows
from clearhead.train.image_check import check_images

Image = pytest.importorskip("PIL.Image")

COLORS = {"red": (200, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 200)}


def make_folder(folder: Path, count: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    for label, color in COLORS.items():
        (folder / label).mkdir(parents=True)
        for i in range(count):
            coarse = np.clip(np.array(color) + draw.normal(0, 40, (6, 6, 3)), 0, 255).astype("u1")
            Image.fromarray(coarse).resize((48, 48), Image.Resampling.BICUBIC).save(folder / label / f"{i}.png")


def test_images_that_look_alike_are_unreadable_or_have_a_wrong_label_are_named(tmp_path: Path) -> None:
    make_folder(tmp_path / "train", 30, 1)
    make_folder(tmp_path / "test", 5, 2)
    parts = {name: read_rows(tmp_path, {"image": name, "label": "folder"}) for name in ("train", "test")}
    assert check_images(parts) == []

    (tmp_path / "train/red/broken.jpg").write_bytes(b"\xff\xd8 no image")
    Image.open(tmp_path / "train/blue/3.png").save(tmp_path / "test/blue/again.jpg", quality=85)
    Image.open(tmp_path / "train/green/4.png").resize((90, 90)).save(tmp_path / "train/green/large.png")
    (tmp_path / "train/green/7.png").rename(tmp_path / "train/red/moved.png")
    found = {finding.what: finding for finding in check_images(parts)}
    assert set(found) == {
        "train: unreadable images, skipped", "train: images that look alike", "train: labels that look wrong",
        "images of test that look like one of train",
    }  # fmt: skip
    assert found["train: unreadable images, skipped"].places[0].startswith("train/red/broken.jpg: ")
    assert found["train: images that look alike"].places == ("train/green/large.png and train/green/4.png",)
    assert found["train: labels that look wrong"].places == ("train/red/moved.png is red and looks like green",)
    assert found["images of test that look like one of train"].places == ("test/blue/again.jpg and train/blue/3.png",)
