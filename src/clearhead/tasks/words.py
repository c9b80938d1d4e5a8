"""Predicting words: what translation and language modelling share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Integers
from clearhead.layers import word_loss
from clearhead.models import Model
from clearhead.models.heads import Vocabulary
from clearhead.tasks.task import Batch


def loss_of_words(model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """-log p of every label, summed."""
    assert isinstance(model, Model) and isinstance(model.head, Vocabulary)
    x = model.states(batch.ids, batch.layout, batch.target, batch.target_layout)
    output = model.head.output
    return word_loss(model.head.before(x), output.weight, output.bias, batch.labels, smoothing)


def layout_of(lengths: Integers) -> Layout:
    """A layout of sequences with these lengths."""
    return Layout.of(lengths.tolist())


def tensor(ids: Integers) -> Tensor:
    """Ids as a tensor."""
    return torch.from_numpy(ids)
