from typing import Any

import pytest
import torch

from clearhead.hub.folder import open_folder
from clearhead.vision import PatchConfig, Patches


def test_patches_are_read_row_by_row():
    """A projection that only averages shows which pixels each token came from."""
    patches = Patches(PatchConfig(image_size=4, patch_size=2, num_channels=1), 1)
    assert isinstance(patches.project, torch.nn.Conv2d) and patches.token is not None
    with torch.no_grad():
        patches.project.weight.fill_(0.25)
        assert patches.project.bias is not None
        patches.project.bias.zero_()
        patches.positions.zero_()
        patches.token.fill_(9.0)
    pixels = torch.arange(16.0).view(1, 1, 4, 4).repeat(2, 1, 1, 1)
    layout = patches.layout(pixels)
    assert layout.host_lengths == (5, 5)
    assert patches(pixels, layout).flatten().tolist() == [9.0, 2.5, 4.5, 10.5, 12.5] * 2


@pytest.mark.parametrize("sizes", [{"image_size": 10, "patch_size": 4}, {"patch_size": 0}, {"num_channels": "3"}])
def test_sizes_that_cannot_be(sizes):
    with pytest.raises(ValueError, match=next(iter(sizes)) if len(sizes) == 1 else "is not a multiple of patch_size 4"):
        PatchConfig(**sizes)


def test_a_picture_of_another_size_is_refused():
    patches = Patches(PatchConfig(image_size=4, patch_size=2), 8)
    pixels = torch.zeros(1, 3, 6, 6)
    with pytest.raises(ValueError, match=r"images are \(1, 3, 6, 6\): this model reads \(count, 3, 4, 4\)"):
        patches(pixels, patches.layout(pixels))


def test_a_convolutional_stem_halves_the_sides():
    config = PatchConfig(image_size=12, patch_size=4, stem_layers=2, class_token=False)
    patches = Patches(config, 8)
    pixels = torch.randn(2, 3, 12, 12)
    layout = patches.layout(pixels)
    assert layout.host_lengths == (9, 9)
    assert patches(pixels, layout).shape == (18, 8)
    changed = pixels.clone()
    changed[1, :, 11, 11] += 1
    moved = (patches(changed, layout) - patches(pixels, layout)).abs().sum(1) > 0
    assert moved[17] and not moved[:14].any(), "only patches near the pixel change"
    with pytest.raises(ValueError, match="2 convolutions make patches of 4 pixels, but patch_size is 3"):
        PatchConfig(image_size=12, patch_size=3, stem_layers=2)


VIT: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 16,
       "patch_size": 4}  # fmt: skip
SIZES = [(16, 16), (8, 24), (20, 12), (4, 4), (32, 8)]


def test_images_of_many_sizes_in_one_batch_equal_each_alone_and_transformers(tmp_path):
    from transformers import ViTConfig, ViTModel

    torch.manual_seed(0)
    theirs = ViTModel(ViTConfig(**VIT), add_pooling_layer=False).eval()
    theirs.save_pretrained(tmp_path)
    model = open_folder(tmp_path).model
    encoder = model.encoder
    assert encoder is not None and isinstance(encoder.embedding, Patches)
    images = [torch.randn(3, *size) for size in SIZES]
    layout = encoder.embedding.layout(images)
    assert layout.host_lengths == (17, 13, 16, 2, 17)
    with torch.no_grad():
        together = encoder(images, layout).split(list(layout.host_lengths))
        for image, x in zip(images, together, strict=True):
            alone = encoder([image], encoder.embedding.layout([image]))
            expected = theirs(image[None], interpolate_pos_encoding=True).last_hidden_state[0]
            torch.testing.assert_close(x, alone, atol=2e-6, rtol=0)
            torch.testing.assert_close(x, expected, atol=5e-6, rtol=0)
        square = images[0][None]
        torch.testing.assert_close(encoder(square, encoder.embedding.layout(square)), together[0], atol=2e-6, rtol=0)


@pytest.mark.parametrize("config", [{}, {"stem_layers": 2, "class_token": False}])
def test_gradients_of_a_ragged_batch_are_those_of_its_images(config):
    torch.manual_seed(0)
    patches = Patches(PatchConfig(image_size=16, patch_size=4, **config), 8).double()
    images = [torch.randn(3, *size, dtype=torch.double) for size in SIZES]
    patches(images, patches.layout(images)).square().sum().backward()
    together = {name: p.grad.clone() for name, p in patches.named_parameters() if p.grad is not None}
    patches.zero_grad()
    for image in images:
        patches([image], patches.layout([image])).square().sum().backward()
    for name, p in patches.named_parameters():
        torch.testing.assert_close(together[name], p.grad)


def test_images_that_do_not_fit_are_refused():
    patches = Patches(PatchConfig(image_size=16, patch_size=4), 8)
    for shape in ((3, 16, 18), (1, 16, 16), (16, 16)):
        with pytest.raises(ValueError, match="multiples of 4"):
            patches.layout([torch.zeros(shape)])
    with pytest.raises(ValueError, match="there is no image"):
        patches.layout([])
    image = torch.zeros(3, 8, 8)
    with pytest.raises(ValueError, match="1 images have 5 tokens, but the layout holds 10"):
        patches([image], patches.layout([image, image]))


@pytest.mark.parametrize(
    "config", [PatchConfig(image_size=8, patch_size=4), PatchConfig(image_size=8, patch_size=4, stem_layers=2)]
)
def test_pixels_take_the_dtype_of_the_weights(config):
    """Images are float32 whatever the model computes in."""
    torch.manual_seed(0)
    patches, pixels = Patches(config, 64), torch.randn(2, 3, 8, 8)
    expected = patches(pixels, patches.layout(pixels)).detach()
    patches.to(torch.bfloat16)
    for images in (pixels, list(pixels)):
        found = patches(images, patches.layout(images))
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.float(), expected, atol=0.03, rtol=0.03)
