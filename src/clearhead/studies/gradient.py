"""Vanishing gradients: how much the loss at a token depends on inputs k tokens earlier."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.distributed import Distributed
from clearhead.models import Model
from clearhead.pipeline import load
from clearhead.studies.training import OnProgress, StudyCorpus, no_progress, scratch_settings, train_recipe
from clearhead.tasks import Batch
from clearhead.train import Recipe, make_recipe
from clearhead.viz import Curve, Panel, draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETS = {"RNN": "rnn", "GRU": "gru", "LSTM": "lstm"}
REACH = 100  # maximum distance k in tokens
SEQUENCES = 128
FLOOR = 1e-12  # lower limit of the axis
POSITIONS = 8  # tokens per sequence whose loss is differentiated


@dataclass(frozen=True)
class GradientFlow:
    """Mean norm of d loss(t) / d input(t - k) for k = 0, 1, 2, ..."""

    label: str
    parameters: int
    initial: tuple[float, ...]
    trained: tuple[float, ...]
    valid_loss: float  # after training, in nats per token


@dataclass(frozen=True)
class GradientResult:
    """Results of the study."""

    steps: int
    reach: int
    sequences: int
    positions: int
    flows: tuple[GradientFlow, ...]


def recipes(corpus: StudyCorpus, steps: int, seed: int, width: int = 128, reach: int = REACH) -> dict[str, Recipe]:
    """Return recipes of one-layer recurrent models and a two-layer Transformer with equal settings otherwise."""
    models: dict[str, dict[str, Any]] = {
        label: {"kind": kind, "width": width, "hidden_size": width} for label, kind in NETS.items()
    }
    models["Transformer"] = {"width": width, "num_layers": 2, "num_heads": 4, "ffn_dim": 4 * width}
    return {
        label: make_recipe(
            {
                "task": "language_model",
                "seed": seed,
                "data": {"train": corpus.part, "validation_rows": corpus.validation_rows, "max_len": reach + POSITIONS},
                "tokenizer": {"vocab_size": 257},  # bytes: one token per character
                "model": {**model, "dropout": 0.0},
                "train": scratch_settings(
                    steps, 4096, {"lr": 2e-3}, {"kind": "linear", "final": 0.05}, dtype="float32"
                ),
            }
        )
        for label, model in models.items()
    }


def measure(
    corpus: StudyCorpus,
    folder: Path,
    *,
    steps: int = 300,
    seed: int = 1,
    width: int = 128,
    reach: int = REACH,
    sequences: int = SEQUENCES,
    on_progress: OnProgress = no_progress,
) -> GradientResult:
    """Measure the gradient norms of an RNN, GRU, LSTM and Transformer, untrained and trained in `folder`."""
    flows: list[GradientFlow] = []
    count = 0
    for label, recipe in recipes(corpus, steps, seed, width, reach).items():
        run, progress = train_recipe(label, recipe, corpus.base, folder / label.lower(), on_progress)
        full_length = np.flatnonzero(run.task.lengths(run.valid) == reach + POSITIONS)[:sequences]
        if not len(full_length):
            raise ValueError(f"{corpus.name}: the validation part has under {reach + POSITIONS} tokens; give more text")
        batch, count = run.task.collate(run.valid, full_length), len(full_length)
        untrained, trained = run.job(Distributed(), shown=False).model, load(folder / label.lower() / "model").model
        assert isinstance(untrained, Model) and progress.best is not None
        size = sum(p.numel() for p in trained.parameters())
        before, after = (norms(model, batch, reach) for model in (untrained, trained))
        flows.append(GradientFlow(label, size, before, after, round(progress.best, 4)))
    return GradientResult(steps, reach, count, POSITIONS, tuple(flows))


def norms(model: Model, batch: Batch, reach: int) -> tuple[float, ...]:
    """Return the norms of d loss(t) / d input(t - k) for k from 0 to `reach`, averaged over the last tokens of a batch.

    Inputs are the embeddings that enter the first layer. All sequences have the same length.
    """
    inputs: list[Tensor] = []

    def detach(module: nn.Module, args: Any, x: Tensor) -> Tensor:  # the gradient stops at the first layer's input
        inputs.append(x.detach().requires_grad_())
        return inputs[0]

    assert model.decoder is not None
    hook = model.decoder.embedding.register_forward_hook(detach)
    try:
        scores = model.eval()(batch.ids, batch.layout)
    finally:
        hook.remove()
    count, length = batch.layout.num_sequences, batch.layout.max_len
    losses = F.cross_entropy(scores.float(), batch.labels, reduction="none").view(count, length)
    total = torch.zeros(reach + 1)
    for t in range(reach, length):
        (grad,) = torch.autograd.grad(losses[:, t].sum(), inputs, retain_graph=True)  # (N, D)
        back = grad.norm(dim=1).view(count, length)[:, t - reach : t + 1].flip(1)  # (B, K), nearest first
        total += back.mean(0)
    return tuple(float(f"{x:.4g}") for x in (total / (length - reach)).tolist())


def draw(measured: GradientResult) -> Figure:
    """Plot the norms against the distance on a logarithmic axis, untrained and trained."""
    distances = [float(k) for k in range(measured.reach + 1)]
    ends = [x for flow in measured.flows for x in (*flow.initial, *flow.trained) if x > 0]
    y_range = max(min(ends), FLOOR) / 2, 2 * max(ends)
    labels = "distance k (characters)", "mean norm of d loss(t) / d input(t − k)"
    panels: list[Panel] = []
    for title, values in (("untrained", "initial"), (f"after {measured.steps:,} steps", "trained")):
        curves = [Curve(flow.label, distances, getattr(flow, values)) for flow in measured.flows]
        panels.append(Panel(curves, *labels, title, y_scale="log", y_range=y_range))
    return draw_curves(panels, "Gradient norm by distance", width=5.2, height=4.2)
