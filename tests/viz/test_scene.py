"""The page's JSON contains the captured weights."""

from __future__ import annotations

import base64
import gzip
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clearhead.viz import Precomputed, Scene, SceneAxis, SceneInput, SceneLayer, TokenLabels
from clearhead.viz.scene import FIXED_POINT_ONE, pack_floats, pack_weights, to_dict, to_json
from clearhead.viz.sources import pooled


def named(count: int) -> TokenLabels:
    return TokenLabels(tuple(f"w{i}" for i in range(count)), (False,) * count, (False,) * count)


def scene(weights: torch.Tensor, **options) -> Scene:
    T, S = weights.shape[1:]
    axes = SceneAxis("target", named(T)), SceneAxis("source", named(S))
    return Scene(
        (SceneInput("x", axes, (SceneLayer("cross.0", "cross", 0, 1, Precomputed(weights)),), **options),), "t", "m"
    )


def unpacked(text: str) -> np.ndarray:
    planes = np.frombuffer(gzip.decompress(base64.b64decode(text)), np.uint8).reshape(3, -1).astype(np.float64)
    return (planes[0] * 65536 + planes[1] * 256 + planes[2]) / FIXED_POINT_ONE


@given(arrays(np.float32, st.integers(1, 50), elements=st.floats(0, 1, width=32)))
def test_weights_survive_packing_to_half_a_step(weights):
    assert np.abs(unpacked(pack_weights(torch.from_numpy(weights))) - weights).max() <= 0.5 / FIXED_POINT_ONE + 1e-12


def test_floats_survive_packing():
    tensors = [torch.randn(3, 4), torch.randn(5)]
    found = np.frombuffer(gzip.decompress(base64.b64decode(pack_floats(tensors))), "<f4")
    assert np.array_equal(found, torch.cat([t.flatten() for t in tensors]).numpy())


def test_precomputed_weights_are_described():
    weights = torch.rand(2, 3, 5).softmax(-1)
    found = to_dict(scene(weights), live=False)
    layer = found["sequences"][0]["maps"][0]
    assert (layer["heads"], layer["queries"], layer["keys"], layer["vectors"], layer["norms"]) == (2, 0, 1, None, None)
    assert np.abs(unpacked(layer["weights"]).reshape(2, 3, 5) - weights.numpy()).max() < 1e-7


def test_a_live_description_holds_no_weights():
    layer = to_dict(scene(torch.rand(1, 2, 2)), live=True)["sequences"][0]["maps"][0]
    assert "weights" not in layer


def test_wrong_number_of_labels_is_refused():
    axes, layer = (
        (SceneAxis("a", named(3)), SceneAxis("b", named(4))),
        SceneLayer("l", "cross", 0, 1, Precomputed(torch.rand(1, 3, 5))),
    )
    with pytest.raises(ValueError, match=r"3 x 5, but its axes have 3 and 4 labels"):
        SceneInput("x", axes, (layer,))


def test_unknown_layer():
    with pytest.raises(ValueError, match=r"no layer 'encoder.7'; there are cross.0"):
        scene(torch.rand(1, 2, 2)).inputs[0].layer("encoder.7")


@given(st.text())
def test_no_tag_begins_inside_the_data(text):
    found = to_json({"word": text.encode("utf-8", "replace").decode()})
    assert "<" not in found and "\u2028" not in found
    assert json.loads(found)["word"] == text.encode("utf-8", "replace").decode()


def test_pooling_to_no_more_than_there_is():
    weights = torch.arange(12.0).view(3, 4)
    assert torch.equal(pooled(weights, (9, 9), "max"), weights)
    assert pooled(weights, (1, 1), "max").item() == 11
    assert pooled(weights, (1, 2), "mean").tolist() == [[4.5, 6.5]]
