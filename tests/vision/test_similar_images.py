import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.vision import read_image
from clearhead.vision.image_files import to_pil
from clearhead.vision.similar_images import SimilarImages, image_digest, image_features, look_alike

pytest.importorskip("PIL")


def photo(seed: int, side: int = 64) -> Tensor:
    """An image with the spectrum of photographs: a frequency is the weaker the higher it is."""
    noise = torch.from_numpy(np.random.default_rng(seed).standard_normal((3, side, side)))
    frequency = torch.hypot(torch.fft.fftfreq(side)[:, None], torch.fft.fftfreq(side)[None, :])
    image = torch.fft.ifft2(torch.fft.fft2(noise) / (frequency + 1 / side)).real
    return (image / image.std() * 50 + 128).clamp(0, 255).to(torch.uint8)


def as_jpeg(pixels: Tensor, quality: int) -> Tensor:
    file = io.BytesIO()
    to_pil(pixels).save(file, "JPEG", quality=quality)
    return read_image(file.getvalue())


@given(st.integers(0, 10_000), st.integers(70, 95), st.sampled_from([48, 96, 128]), st.integers(-6, 6))
@settings(max_examples=30, deadline=None)
def test_an_image_compressed_resized_or_made_brighter_looks_alike(
    seed: int, quality: int, side: int, light: int
) -> None:
    original = photo(seed)
    brighter = (original.int() + light).clamp(0, 255).to(torch.uint8)
    resized = torch.nn.functional.interpolate(original[None].float(), (side, side), mode="bilinear", antialias=True)
    for changed in (as_jpeg(original, quality), brighter, resized[0].to(torch.uint8)):
        assert look_alike(image_digest(original), image_digest(changed))


def test_each_image_is_found_by_its_copy_and_no_other() -> None:
    known = SimilarImages()
    assert [known.add(image_digest(photo(seed))) for seed in range(200)] == [None] * 200
    assert [known.add(image_digest(as_jpeg(photo(seed), 90))) for seed in range(200)] == list(range(200))


def test_images_that_differ_in_color_alone_do_not_look_alike() -> None:
    red, green = torch.zeros(3, 32, 32, dtype=torch.uint8), torch.zeros(3, 32, 32, dtype=torch.uint8)
    red[0], green[1] = 200, 200
    assert image_digest(red).bits == image_digest(green).bits
    assert not look_alike(image_digest(red), image_digest(green))


def test_features_tell_the_direction_of_edges_and_the_color() -> None:
    rows = (torch.arange(32) // 4 % 2 * 255).to(torch.uint8)
    down = rows[:, None].expand(3, 32, 32).contiguous()
    across = rows[None, :].expand(3, 32, 32).contiguous()
    first, second = image_features(down), image_features(across)
    assert first.shape == (192,)
    assert np.abs(first[:144] - second[:144]).sum() > 10
    assert np.abs(first[144:] - second[144:]).max() < 0.1  # the same colors on average
