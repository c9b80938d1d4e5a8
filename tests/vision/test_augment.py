"""Augmentations: pure functions of seed, epoch and example; colors as Pillow computes them; shares of mixed labels."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageOps

from clearhead.vision import AugmentConfig, augment, color_ops, mix
from clearhead.vision.augment import CHANGES, erase, padded_crop, rand_augment, resized_crop
from clearhead.vision.random_numbers import uniform

ALL = AugmentConfig(crop_padding=4, min_area=0.5, flip=True, color=0.4, randaugment=2, erase=0.5)


def batch(count: int = 8, height: int = 12, width: int = 16, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    smooth = rng.integers(0, 256, (count, 3, 4, 4), dtype="u1")
    large = torch.nn.functional.interpolate(torch.from_numpy(smooth).float(), (height, width), mode="bilinear")
    return large.round().to(torch.uint8)


def as_images(x: torch.Tensor) -> list[Image.Image]:
    return [Image.fromarray(one.permute(1, 2, 0).numpy()) for one in x]


def from_images(images: list[Image.Image]) -> torch.Tensor:
    return torch.stack([torch.from_numpy(np.array(one)).permute(2, 0, 1) for one in images])


def test_numbers_are_uniform_and_independent():
    drawn = uniform(3, 1, range(20_000), 4)
    assert drawn.min() >= 0 and drawn.max() < 1
    assert np.abs(drawn.mean(0) - 0.5).max() < 0.01
    counts = np.histogram(drawn, 20, (0, 1))[0]
    assert np.abs(counts / counts.mean() - 1).max() < 0.05
    rows = np.corrcoef(drawn.T) - np.eye(4)
    assert np.abs(rows).max() < 0.03
    for other in (uniform(4, 1, range(20_000), 4), uniform(3, 2, range(20_000), 4), uniform(3, 1, range(1, 20_001), 4)):
        assert abs(np.corrcoef(drawn[:, 0], other[:, 0])[0, 1]) < 0.03


@settings(max_examples=30, deadline=None)
@given(st.integers(-(2**62), 2**62), st.integers(0, 2**40), st.lists(st.integers(0, 2**40), min_size=1, max_size=6))
def test_numbers_do_not_depend_on_what_else_is_drawn(seed, epoch, examples):
    many = uniform(seed, epoch, examples, 9)
    for row, example in zip(many, examples, strict=True):
        assert np.array_equal(row[:3], uniform(seed, epoch, [example], 3)[0])


def test_a_picture_depends_on_seed_epoch_and_example_alone():
    x = batch(6)
    whole = augment(x, ALL, seed=1, epoch=2, examples=[5, 6, 7, 8, 9, 10])
    assert whole.dtype == torch.uint8 and whole.shape == x.shape
    for i in range(6):
        assert torch.equal(augment(x[i : i + 1], ALL, seed=1, epoch=2, examples=[5 + i])[0], whole[i])
    assert torch.equal(augment(x, ALL, seed=1, epoch=2, examples=range(5, 11)), whole)
    for other in ({"seed": 2, "epoch": 2, "examples": range(5, 11)}, {"seed": 1, "epoch": 3, "examples": range(5, 11)},
                  {"seed": 1, "epoch": 2, "examples": range(6, 12)}):  # fmt: skip
        assert not torch.equal(augment(x, ALL, **other), whole)
    assert torch.equal(augment(x, AugmentConfig(), seed=1, epoch=0, examples=range(6)), x)


def test_crops_are_parts_of_the_picture():
    x = batch(64, 5, 7)
    places = torch.rand(64, 2, dtype=torch.float64)
    cut = padded_crop(x, 2, places)
    seen = set()
    for one, image, (a, b) in zip(cut, x, places.tolist(), strict=True):
        top, left = int(a * 5), int(b * 5)
        seen.add((top, left))
        around = torch.nn.functional.pad(image, (2, 2, 2, 2))
        assert torch.equal(one, around[:, top : top + 5, left : left + 7])
    assert len(seen) > 15
    assert torch.equal(resized_crop(x, 1.0, torch.full((64, 4), 0.5, dtype=torch.float64)), x)
    plain = torch.full((4, 3, 8, 8), 77, dtype=torch.uint8)
    assert torch.equal(resized_crop(plain, 0.2, torch.rand(4, 4, dtype=torch.float64)), plain), "never outside"


def test_half_of_the_pictures_are_flipped():
    x = batch(400)
    changed = augment(x, AugmentConfig(flip=True), seed=0, epoch=0, examples=range(400))
    flipped = [torch.equal(a, b.flip(-1)) for a, b in zip(changed, x, strict=True)]
    assert all(f or torch.equal(a, b) for f, a, b in zip(flipped, changed, x, strict=True))
    assert 150 < sum(flipped) < 250


@pytest.mark.parametrize("factor", [0.1, 0.5, 1.0, 1.7])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (color_ops.brightness, ImageEnhance.Brightness), (color_ops.contrast, ImageEnhance.Contrast),
        (color_ops.saturation, ImageEnhance.Color), (color_ops.sharpness, ImageEnhance.Sharpness),
    ],
)  # fmt: skip
def test_colors_are_those_of_pillow(ours, theirs, factor):
    x = batch(5)
    found = ours(x, torch.full((5,), factor))
    expected = from_images([theirs(image).enhance(factor) for image in as_images(x)])
    assert (found.int() - expected.int()).abs().max() <= 2  # Pillow cuts fractions off
    if factor == 1.0:
        assert torch.equal(found, x)


def test_values_are_changed_as_by_pillow():
    x = batch(6, seed=3)
    assert torch.equal(color_ops.equalize(x), from_images([ImageOps.equalize(i) for i in as_images(x)]))
    assert (
        (color_ops.autocontrast(x).int() - from_images([ImageOps.autocontrast(i) for i in as_images(x)]).int()).abs()
        <= 1
    ).all()
    for bits in (4, 6, 8):
        expected = from_images([ImageOps.posterize(i, bits) for i in as_images(x)])
        assert torch.equal(color_ops.posterize(x, torch.full((6,), float(bits))), expected)
    for threshold in (0, 100, 256):
        expected = from_images([ImageOps.solarize(i, threshold) for i in as_images(x)])
        assert torch.equal(color_ops.solarize(x, torch.full((6,), float(threshold))), expected)
    plain = torch.full((2, 3, 4, 4), 9, dtype=torch.uint8)
    assert torch.equal(color_ops.equalize(plain), plain)
    assert torch.equal(color_ops.autocontrast(plain), plain)


def test_every_change_of_randaugment_is_drawn_and_changes():
    x = batch(1, 24, 32).expand(700, -1, -1, -1)
    draws = torch.from_numpy(uniform(0, 0, range(700), 3))
    changed = rand_augment(x, 0.7, draws)
    kinds = (draws[:, 0] * len(CHANGES)).long()
    assert set(kinds.tolist()) == set(range(len(CHANGES)))
    for kind in range(1, len(CHANGES)):
        assert not torch.equal(changed[kinds == kind][0], x[0]), kind
    assert torch.equal(changed[kinds == 0], x[kinds == 0])
    still = rand_augment(x, 0.0, draws)
    moved = [k for k in range(len(CHANGES)) if not torch.equal(still[kinds == k], x[kinds == k])]
    assert set(moved) <= {1, 2, 4}, "without strength only the changes that have none, and values of 255"


def test_shears_and_moves_go_to_the_right_place():
    x = torch.zeros(1, 3, 9, 9, dtype=torch.uint8)
    x[:, :, 4, 4] = 255
    third = torch.tensor([2 / 9 / 0.9], dtype=torch.float64)
    assert CHANGES[12](x, third)[0, 0].nonzero().tolist() == [[4, 3]]
    assert CHANGES[13](x, third)[0, 0].nonzero().tolist() == [[3, 4]]
    assert CHANGES[3](x, third)[0, 0, 4, 4] == 255, "the center stays"


def test_a_rectangle_is_erased():
    x = batch(300, 10, 10)
    draws = torch.from_numpy(uniform(0, 0, range(300), 5))
    erased = (erase(x, 0.5, draws) != x).any(1).flatten(1).sum(1)
    assert 100 < (erased > 0).sum() < 200
    assert erased.max() <= 40
    assert torch.equal(erase(x, 0.0, draws), x)


@pytest.mark.parametrize("config", [AugmentConfig(mixup=0.4), AugmentConfig(cutmix=1.0), AugmentConfig(mixup=1.0, cutmix=1.0)])  # fmt: skip
def test_shares_say_how_much_of_a_picture_is_left(config):
    x = torch.stack([torch.full((3, 20, 20), 10 * i, dtype=torch.uint8) for i in range(20)])
    mixed = mix(x, config, seed=0, epoch=0, examples=np.arange(20))
    assert mixed.partners.tolist() == [19, *range(19)]
    own, other = x[:, 0, 0, 0].float(), x[mixed.partners][:, 0, 0, 0].float()
    expected = mixed.shares * own + (1 - mixed.shares) * other
    assert (mixed.pixels.float().mean((1, 2, 3)) - expected).abs().max() <= 0.5
    assert 0.1 < mixed.shares.std() and ((mixed.shares >= 0) & (mixed.shares <= 1)).all()
    again = mix(x, config, seed=0, epoch=0, examples=np.arange(20))
    assert torch.equal(again.pixels, mixed.pixels)
    assert not torch.equal(mix(x, config, seed=0, epoch=1, examples=np.arange(20)).shares, mixed.shares)
    alone = mix(x[:1], config, seed=0, epoch=0, examples=np.arange(1))
    assert torch.equal(alone.pixels, x[:1]) and alone.shares.tolist() == [1.0]


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match=r"augment.min_area is 0.*0.01 to 1"):
        AugmentConfig(min_area=0.0)
    with pytest.raises(ValueError, match=r"augment.magnitude is 31"):
        AugmentConfig(magnitude=31)
