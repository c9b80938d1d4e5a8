"""Preprocessing of images: pixels equal those of transformers' processors, and configs are read and written."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPImageProcessorPil, ViTImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from clearhead.vision import ImageProcessor
from clearhead.vision.image_files import to_tensor

SIZES = [(30, 40), (64, 33), (7, 9), (1, 1), (224, 224), (301, 100)]


def random_image(height: int, width: int) -> Image.Image:
    rng = np.random.default_rng(height * 1000 + width)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype="u1"))


PROCESSORS = {
    "vit": ViTImageProcessorPil(size={"height": 32, "width": 48}),
    "vit bicubic": ViTImageProcessorPil(size={"height": 16, "width": 16}, resample=3),
    "raw": ViTImageProcessorPil(size={"height": 16, "width": 16}, do_normalize=False, do_rescale=False),
    "clip": CLIPImageProcessorPil(size={"shortest_edge": 40}, crop_size={"height": 32, "width": 36}),
    "clip wide": CLIPImageProcessorPil(size={"shortest_edge": 20}, crop_size={"height": 33, "width": 34}),
    "siglip": SiglipImageProcessorPil(size={"height": 24, "width": 24}),
    "not resized": ViTImageProcessorPil(do_resize=False),
}


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("size", SIZES)
def test_pixels_equal_those_of_transformers(name, size):
    theirs = PROCESSORS[name]
    ours = ImageProcessor.from_config(json.loads(theirs.to_json_string()))
    image = random_image(*size)
    expected = torch.as_tensor(theirs([image])["pixel_values"][0])
    (found,) = ours([to_tensor(image)])
    scale = 255 if ours.rescale_factor is None else 1
    std = min(ours.std) if ours.std is not None else 1.0
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= 1e-5 * scale / std


@pytest.mark.parametrize("name", PROCESSORS)
def test_what_is_written_is_read_by_both(name, tmp_path):
    ours = ImageProcessor.from_config(json.loads(PROCESSORS[name].to_json_string()))
    written = ours.to_config()
    assert ImageProcessor.from_config(json.loads(json.dumps(written))) == ours
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(written))
    again = type(PROCESSORS[name]).from_pretrained(tmp_path)
    image = random_image(50, 37)
    expected = torch.as_tensor(PROCESSORS[name]([image])["pixel_values"][0])
    assert torch.equal(torch.as_tensor(again([image])["pixel_values"][0]), expected)


def test_old_and_unknown_configs():
    old = {"feature_extractor_type": "CLIPFeatureExtractor", "size": 20, "crop_size": 16, "do_center_crop": True,
           "image_mean": 0.5, "image_std": 0.5, "resample": 3, "something": [1]}  # fmt: skip
    read = ImageProcessor.from_config(old)
    assert (read.shortest_edge, read.crop, read.kind) == (20, (16, 16), "CLIPImageProcessor")
    assert read.to_config()["something"] == [1]
    square = ImageProcessor.from_config({"feature_extractor_type": "ViTFeatureExtractor", "size": 20})
    assert (square.height, square.width) == (20, 20)
    for wrong in ({"do_pad": True}, {"size": {"longest_edge": 5}}, {"size": {"height": 0, "width": 5}}):
        with pytest.raises(ValueError, match=r"supported|side"):
            ImageProcessor.from_config(wrong)
    with pytest.raises(ValueError, match="give both"):
        ImageProcessor(height=3, width=None)
    with pytest.raises(ValueError, match="belong together"):
        ImageProcessor(mean=None)
