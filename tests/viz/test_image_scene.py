"""The attention of images: scenes from clearhead and live transformers models, their page and figures."""

import base64
import json
import re

import numpy as np
import pytest
import torch

import clearhead
from clearhead.hub.folder import open_folder
from clearhead.viz.image_scene import ImageScene, image_page, shown_pixels
from clearhead.viz.scene import SceneLayer
from clearhead.viz.sources import Precomputed

transformers = pytest.importorskip("transformers")

VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 16,
       "patch_size": 4}  # fmt: skip


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A ViT of transformers with strong attention, and ours with its weights."""
    torch.manual_seed(0)
    theirs = transformers.ViTModel(transformers.ViTConfig(**VIT), add_pooling_layer=False).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    folder = tmp_path_factory.mktemp("vit")
    theirs.save_pretrained(folder)
    return theirs, open_folder(folder).model


def page_weights(page: str) -> tuple[dict, list[np.ndarray]]:
    found = re.search(r'id="scene">(.*?)</script>', page, re.S)
    assert found is not None
    data = json.loads(found[1])
    tokens = data["grid"][0] * data["grid"][1] + len(data["learned"])
    stored = [np.frombuffer(base64.b64decode(layer["weights"]), "<u2") for layer in data["layers"]]
    return data, [(one.reshape(-1, tokens, tokens) / 65535) ** 2 for one in stored]


def test_ours_and_a_live_model_show_the_same_weights(both):
    theirs, ours = both
    pixels = torch.randn(3, 3, 16, 16)
    with clearhead.look(ours) as run, torch.no_grad():
        ours.encoder(pixels, ours.encoder.embedding.layout(pixels))
    with clearhead.look(theirs) as live, torch.no_grad():
        theirs(pixel_values=pixels)
    for i in range(3):
        one, other = run.image_scene(i), live.image_scene(i)
        assert one.grid == other.grid == (4, 4) and one.learned == other.learned == ("class token",)
        assert torch.equal(one.pixels, other.pixels)
        for a, b in zip(one.layers, other.layers, strict=True):
            for head in range(4):
                torch.testing.assert_close(a.attention.head(head), b.attention.head(head), atol=1e-5, rtol=0)
        data, weights = page_weights(image_page(one))
        assert data["grid"] == [4, 4] and data["patches"] == 1 and data["image"].startswith("data:image/png;base64,")
        for layer, stored in zip(one.layers, weights, strict=True):
            for head in range(4):
                np.testing.assert_allclose(stored[head], layer.attention.head(head).numpy(), atol=2e-5)
        torch.testing.assert_close(one.rollout(), run.rollout(sequence=i), atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="there is no image 3: choose 0 to 2"):
        run.image_scene(3)


def test_images_of_several_sizes_and_calls(both):
    _, ours = both
    images = [torch.randn(3, 8, 12), torch.randn(3, 16, 4)]
    with clearhead.look(ours) as run, torch.no_grad():
        for part in (images, images[::-1]):
            ours.encoder(part, ours.encoder.embedding.layout(part))
    assert [run.image_scene(i).grid for i in range(4)] == [(2, 3), (4, 1), (4, 1), (2, 3)]
    first, again = run.image_scene(0), run.image_scene(3)
    torch.testing.assert_close(first.layers[1].attention.head(2), again.layers[1].attention.head(2), atol=1e-6, rtol=0)


def scene(weights: torch.Tensor, grid: tuple[int, int], title: str = "an image") -> ImageScene:
    layers = (SceneLayer("encoder.0", "self", 0, 0, Precomputed(weights)),)
    return ImageScene(torch.zeros(3, 4 * grid[0], 4 * grid[1], dtype=torch.uint8), grid, layers, title, "model")


def test_distances_and_tokens():
    even = scene(torch.full((1, 5, 5), 0.2), (2, 2))
    assert even.distances()[0].tolist() == pytest.approx([(0 + 1 + 1 + 2**0.5) / 4])
    itself = scene(torch.eye(5)[None], (2, 2))
    assert itself.distances()[0].tolist() == [0.0]
    assert even.token(None) == 0 and even.token((1, 0)) == 3 and even.token("class token") == 0
    assert scene(torch.eye(6)[None], (2, 3)).token(None) == 4  # the middle, where there is no class token
    for place in ((2, 0), (-1, 0), "distillation token"):
        with pytest.raises(ValueError, match="there is no"):
            even.token(place)
    with pytest.raises(ValueError, match="3 x 3 patches, but the attention is of 5 tokens"):
        scene(torch.eye(5)[None], (3, 3))


def test_many_patches_are_joined_and_keep_their_weight():
    torch.manual_seed(0)
    weights = torch.rand(1, 1 + 41 * 50, 1 + 41 * 50).softmax(-1)
    data, (stored,) = page_weights(image_page(scene(weights, (41, 50))))
    assert data["patches"] == 2 and data["grid"] == [21, 25]
    np.testing.assert_allclose(stored.sum(-1), 1.0, atol=2e-3)
    corner = [1, 2, 51, 52]  # the first cell has these patches
    np.testing.assert_allclose(stored[0, 1, 1], float(weights[0][corner][:, corner].sum(1).mean()), rtol=1e-2)


def test_normalized_pixels_are_shown_as_they_were():
    image = torch.randint(0, 256, (3, 5, 4), dtype=torch.uint8)
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
    normalized = (image / 255 - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    assert torch.equal(shown_pixels(normalized, mean, std), image)
    assert shown_pixels(normalized[:1], None, None).shape == (3, 5, 4)


def test_figures_and_wrong_options(both):
    pytest.importorskip("matplotlib")
    theirs, _ = both
    with clearhead.look(theirs) as run, torch.no_grad():
        theirs(pixel_values=torch.randn(1, 3, 16, 16))
    heads = run.plot("heads", layer=0, patch=(1, 2))
    assert "encoder.0: where the patch in row 1, column 2 looks" in heads.get_suptitle()
    assert len([axes for axes in heads.axes if axes.images]) == 5  # the image and four heads
    assert "the class token" in run.plot("rollout").get_suptitle()
    assert len(run.plot("distance").axes[0].collections) == 2
    with pytest.raises(ValueError, match="no figure 'alignment' of an image: choose heads, rollout, distance"):
        run.plot("alignment")
    with pytest.raises(ValueError, match="does not accept 'layer'"):
        run.plot("rollout", layer=1)


def test_the_page_in_a_browser(tab, tmp_path):
    torch.manual_seed(1)
    weights = (4 * torch.randn(3, 10, 10)).softmax(-1)
    hostile = "<img src=x onerror=alert(1)></script>"
    (tmp_path / "page.html").write_text(image_page(scene(weights, (3, 3), hostile)))
    tab.goto((tmp_path / "page.html").as_uri())
    tab.wait_for_selector(".map")
    assert tab.locator("h1").inner_text() == hostile
    canvas, note = tab.locator("canvas.picture"), tab.locator(".note")
    assert note.inner_text().startswith("class token in encoder.0, mean of all heads")
    box = canvas.bounding_box()
    canvas.hover(position={"x": box["width"] / 2, "y": box["height"] * 0.9})
    assert note.inner_text().startswith("row 3, column 2 in encoder.0")
    tab.locator(".map").nth(1).click()
    expected = weights[1, 0, 1:]
    assert f"class token in encoder.0, head 1: {100 * float(expected.sum()):.0f} % on the patches" in note.inner_text()
    assert f"({100 * float(expected.max()):.1f} %)" in note.inner_text()
    tab.get_by_role("button", name="rollout").click()
    assert "in all layers" in note.inner_text()
    canvas.focus()
    tab.keyboard.press("ArrowDown")
    assert "row" in note.inner_text() and tab.locator(".dot").count() == 3
