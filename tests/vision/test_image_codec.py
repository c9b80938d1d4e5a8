"""The image codec: shapes, gradients through the choice of a code, and images that can be restored."""

import pytest
import torch

from clearhead.vision.image_codec import ImageCodec, ImageCodecConfig, psnr, to_pixels
from clearhead.vision.image_grid import GAP, image_grid

SMALL = ImageCodecConfig(image_size=16, num_codes=8, width=16, code_width=4)


def test_codes_are_the_nearest_and_decode_to_what_the_forward_pass_restores():
    torch.manual_seed(0)
    codec, images = ImageCodec(SMALL).eval(), torch.rand(3, 3, 16, 16) * 2 - 1
    codes = codec.encode(images)
    assert codes.shape == (3, 2, 2) and 0 <= codes.min() and codes.max() < 8
    vectors = torch.nn.functional.normalize(codec.encoder(images), dim=1)
    unit = torch.nn.functional.normalize(codec.codes.weight, dim=1)
    nearest = torch.cdist(vectors.permute(0, 2, 3, 1).reshape(-1, 4), unit).argmin(1).view(3, 2, 2)
    assert torch.equal(codes, nearest)
    restored, _ = codec(images)
    assert torch.allclose(codec.decode(codes), restored.clamp(-1, 1), atol=1e-5)


def test_every_part_has_a_gradient_and_a_few_images_are_learned():
    torch.manual_seed(0)
    codec = ImageCodec(SMALL)
    images = torch.zeros(4, 3, 16, 16)
    for i, image in enumerate(images):
        image[i % 3] = 1.0
        image[:, :, : 4 * i] = -1.0
    optimizer = torch.optim.Adam(codec.parameters(), lr=3e-3)
    first = float(psnr(images, codec(images)[0].detach()).mean())
    for _ in range(60):
        restored, codes = codec(images)
        loss = (restored - images).square().mean() + codes.mean()
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in codec.encoder.parameters())
        assert codec.codes.weight.grad is not None and bool(codec.codes.weight.grad.abs().sum() > 0)
        optimizer.step()
    assert float(psnr(images, codec(images)[0].detach()).mean()) > first + 6


def test_bytes_signal_to_noise_and_grids():
    images = torch.tensor([-1.0, 0.0, 1.0, 2.0]).view(1, 1, 2, 2).expand(1, 3, 2, 2)
    assert to_pixels(images)[0, 0].flatten().tolist() == [0, 128, 255, 255]
    half = torch.zeros(1, 3, 4, 4)
    assert float(psnr(half, half + 0.2)) == pytest.approx(20.0, abs=1e-4)  # 4 / 0.04 is 20 decibels
    grid = image_grid(torch.arange(3, dtype=torch.uint8).view(3, 1, 1, 1).expand(3, 3, 4, 5), 2)
    assert grid.shape == (3, 8 + GAP, 10 + GAP)
    assert grid[0, 0, 0] == 0 and grid[0, 0, 5 + GAP] == 1 and grid[0, 4 + GAP, 0] == 2 and grid[0, 0, 5] == 255


@pytest.mark.parametrize(("name", "value"), [("image_size", 20), ("width", 20), ("num_codes", 1), ("code_width", 0)])
def test_sizes_that_do_not_fit_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        ImageCodecConfig(**{name: value})
