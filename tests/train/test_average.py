"""The mean of checkpoints."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from clearhead.files import IntegrityError
from clearhead.train.checkpoint import Progress, average_checkpoints


def filled(model: nn.Module, value: float) -> None:
    with torch.no_grad():
        for param in model.parameters():
            param.fill_(value)


def test_the_mean_of_some_weights(state):
    model, optimizer, checkpoints = state(keep=5)
    folders = []
    for i, value in enumerate((1.0, 2.0, 6.0), 1):
        filled(model, value)
        folders.append(checkpoints.save(Progress(step=i), model, optimizer))
    average_checkpoints(model, folders)
    assert all((p == 3.0).all() for p in model.parameters())
    average_checkpoints(model, folders[1:2])
    assert all((p == 2.0).all() for p in model.parameters())


def test_sums_are_exact(state):
    """In float32 the first and the last would swallow the one between."""
    model, optimizer, checkpoints = state(keep=5)
    folders = []
    for i, value in enumerate((2.0**26, 3.0, -(2.0**26)), 1):
        filled(model, value)
        folders.append(checkpoints.save(Progress(step=i), model, optimizer))
    average_checkpoints(model, folders)
    assert all((p == 1.0).all() for p in model.parameters())


def test_a_damaged_one_is_refused(state):
    model, optimizer, checkpoints = state()
    folder = checkpoints.save(Progress(step=1), model, optimizer)
    (folder / "state.json").write_text("{}")
    with pytest.raises(IntegrityError):
        average_checkpoints(model, [folder])
