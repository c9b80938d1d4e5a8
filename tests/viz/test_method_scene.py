"""A page of methods shows exact weights, those a method used, and those it missed, for the same queries and keys."""

from __future__ import annotations

import pytest
import torch

from clearhead.efficient import Longformer
from clearhead.viz.method_scene import method_scene

TEXT = "The cat sat on the mat, and the dog slept beside the fire. " * 4


def test_missed_weights_are_the_exact_ones_outside_the_window(minilm):
    scene = method_scene(minilm.loaded, TEXT, {"near": Longformer(window=10, global_tokens=0)}, layers=["encoder.2"])
    exact, used, missed = (layer.attention for layer in scene.inputs[0].layers)
    assert [layer.name for layer in scene.inputs[0].layers] == ["encoder.2", "encoder.2 near", "encoder.2 near missed"]
    at = torch.arange(exact.shape[0])
    outside = (at.unsqueeze(1) - at).abs() > 5
    assert torch.equal(missed.head(3), exact.head(3) * outside)
    assert used.head(3)[outside].max() == 0
    assert torch.allclose(used.head(3).sum(1), torch.ones(len(at)))
    tile = missed.tile(3, slice(4, 20), slice(0, 30), (16, 30), "max")
    assert torch.equal(tile, missed.head(3)[4:20, :30])


def test_methods_by_name_and_all_layers(minilm):
    scene = method_scene(minilm.loaded, TEXT, ["bigbird", "linformer"])
    names = [layer.name for layer in scene.inputs[0].layers]
    assert len(names) == 6 * 4, "exact, bigbird, what it missed, linformer; a method that reads all keys misses none"
    assert "encoder.5 linformer" in names and "encoder.5 linformer missed" not in names


def test_unknown_names_are_refused(minilm):
    with pytest.raises(ValueError, match=r"no method 'sparse'.*bigbird"):
        method_scene(minilm.loaded, TEXT, ["sparse"])
    with pytest.raises(ValueError, match=r"no layer 'encoder\.9'"):
        method_scene(minilm.loaded, TEXT, ["bigbird"], layers=["encoder.9"])
