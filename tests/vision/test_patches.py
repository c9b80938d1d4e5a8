import pytest
import torch

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
