"""New weights: Glorot's for linear layers, torch's own in classifiers of images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead.distributed.deferred_init import InitRecorder
from clearhead.models import build
from clearhead.train import make_recipe
from clearhead.train.init_model import initialize, new_model
from clearhead.train.run import prepare
from clearhead.train.training_run import TrainingRun
from tests.train import tiny

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def images(tmp_path: Path) -> TrainingRun:
    """A run of a classifier of images, not started."""
    draw = np.random.default_rng(0)
    for i in range(12):
        path = tmp_path / "images" / "ab"[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (16, 16, 3), dtype="u1")).save(path)
    settings: dict[str, Any] = {
        "task": "classify",
        "data": {
            "train": {"file": str(tmp_path / "images"), "image": ".", "label": "folder"},
            "validation_rows": 2, "image_size": 16,
        },
        "model": {"stem_layers": 2, "width": 32, "num_layers": 1, "num_heads": 2, "ffn_dim": 64},
        "train": {"steps": 2, "batch_examples": 4},
    }  # fmt: skip
    return prepare(make_recipe(settings), tmp_path, tmp_path / "run")


def spread(layer: nn.Module) -> float:
    """The largest value of a weight times the square root of its inputs: 1 as torch draws it."""
    weight = layer.weight
    assert isinstance(weight, Tensor)
    return float(weight.detach().abs().max()) * weight.shape[1] ** 0.5


def test_a_classifier_of_images_begins_with_the_values_that_torch_gives_its_layers(images):
    torch.manual_seed(4)
    model = new_model(images.config, images.task)
    torch.manual_seed(4)
    plain = build(images.config)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))
    layer: Any = model.get_submodule("encoder.blocks.0.attention.query")
    assert 0.95 < spread(layer) <= 1 and float(layer.bias.detach().abs().max()) > 0


def test_models_of_text_begin_with_glorots_values(tmp_path):
    tiny.texts(tmp_path)
    run = prepare(tiny.recipe(), tmp_path, tmp_path / "run")
    model = new_model(run.config, run.task)
    layer: Any = model.get_submodule("encoder.blocks.0.attention.query")
    assert 0.95 < spread(layer) / 3**0.5 <= 1 and not layer.bias.detach().any()  # sqrt(6 / (2 n)) is sqrt(3 / n)


def test_a_classifier_of_images_is_drawn_in_shards_with_the_same_bits(images):
    torch.manual_seed(4)
    whole = dict(new_model(images.config, images.task).named_parameters())
    torch.manual_seed(4)
    with InitRecorder() as recorder:
        model = new_model(images.config, images.task)
    values: dict[str, Tensor] = {}
    recorder.replay(recorder.parameters(model), lambda name, value: values.update({name: value.clone()}))
    assert values.keys() == whole.keys()
    assert all(torch.equal(values[name], param) for name, param in whole.items())


def test_initialize_keeps_embeddings_that_are_also_a_linear_layer():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.vocab = nn.Embedding(9, 4), nn.Linear(4, 9)
            self.vocab.weight = self.table.weight

    model = Tied()
    table = model.table.weight.detach().clone()
    initialize(model)
    assert torch.equal(model.table.weight, table) and not model.vocab.bias.detach().any()
