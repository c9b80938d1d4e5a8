from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from clearhead.train import TrainingRun, prepare
from clearhead.train.checkpoint import Checkpoints
from clearhead.train.optimizer import make_optimizer
from clearhead.train.recipe import OptimizerConfig
from tests.train.tiny import recipe, texts


@pytest.fixture(autouse=True)
def _one_thread(_seed) -> None:
    torch.set_num_threads(1)  # such small models are slower in two


@pytest.fixture(scope="session")
def prepared(tmp_path_factory) -> Path:
    """The texts, and the folder of a run that has not trained yet: copied, never changed."""
    base = tmp_path_factory.mktemp("prepared")
    texts(base)
    prepare(recipe(), base, base / "run")
    return base


@pytest.fixture
def base(prepared, tmp_path) -> Path:
    """A folder with the texts."""
    for name in ("a.x", "a.y"):
        shutil.copy(prepared / name, tmp_path)
    return tmp_path


@pytest.fixture
def begin(prepared, base):
    """Runs of the tiny recipe with other training settings, in fresh folders."""

    def make(name: str = "run", model: dict[str, object] | None = None, **train: object) -> TrainingRun:
        shutil.copytree(prepared / "run", base / name, dirs_exist_ok=True)
        made = recipe(**train)
        made.model.update(model or {})
        return prepare(made, base, base / name)

    return make


@pytest.fixture
def state(tmp_path):
    """A model, its optimizer after a step, and a place for checkpoints."""

    def make(keep: int = 2, optimizer: OptimizerConfig | None = None):
        model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
        made = make_optimizer(model, optimizer or OptimizerConfig())
        for param in model.parameters():
            param.grad = torch.randn_like(param)
        made.step()
        (tmp_path / "checkpoints").mkdir()
        return model, made, Checkpoints(tmp_path / "checkpoints", keep)

    return make
