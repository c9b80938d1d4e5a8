"""The gradient on its way back: how much the loss at a token depends on what was read so many tokens before."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.app import load
from clearhead.models import Model
from clearhead.see import Curve, Panel, draw_curves
from clearhead.studies.corpus import Corpus
from clearhead.studies.trained import Heard, trained, unheard
from clearhead.tasks import Batch
from clearhead.train import Recipe, make_recipe
from clearhead.train.ranks import Ranks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETS = {"RNN": "rnn", "GRU": "gru", "LSTM": "lstm"}
REACH = 100  # tokens back
SEQUENCES = 128
FLOOR = 1e-12  # where the axis ends, at the latest
POSITIONS = 8  # tokens whose loss is followed back, in each sequence


@dataclass(frozen=True)
class Flow:
    """The mean norm of d loss(t) / d input(t - k) for k = 0, 1, 2, ..."""

    label: str
    parameters: int
    initial: tuple[float, ...]
    trained: tuple[float, ...]
    valid_loss: float  # after training, in nats a token


@dataclass(frozen=True)
class Gradient:
    """What was measured."""

    steps: int
    reach: int
    sequences: int
    positions: int
    flows: tuple[Flow, ...]


def recipes(corpus: Corpus, steps: int, seed: int, width: int = 128, reach: int = REACH) -> dict[str, Recipe]:
    """One layer of each recurrent net and two of a Transformer, alike in everything else."""
    models: dict[str, dict[str, Any]] = {
        label: {"kind": kind, "width": width, "hidden": width} for label, kind in NETS.items()
    }
    models["Transformer"] = {"width": width, "num_layers": 2, "num_heads": 4, "hidden": 4 * width}
    return {
        label: make_recipe(
            {
                "task": "language_model",
                "seed": seed,
                "data": {"train": corpus.part, "hold_out": corpus.hold_out, "max_len": reach + POSITIONS},
                "tokenizer": {"vocab_size": 257},  # bytes: letter by letter
                "model": {**model, "dropout": 0.0},
                "train": {
                    "steps": steps,
                    "batch_tokens": 4096,
                    "dtype": "float32",
                    "optimiser": {"lr": 2e-3},
                    "schedule": {"kind": "linear", "warmup": max(1, steps // 10), "final": 0.05},
                    "evaluate_every": steps,
                    "save_every": steps,
                    "keep": 1,
                },
            }
        )
        for label, model in models.items()
    }


def measure(
    corpus: Corpus,
    folder: Path,
    *,
    steps: int = 300,
    seed: int = 1,
    width: int = 128,
    reach: int = REACH,
    sequences: int = SEQUENCES,
    heard: Heard = unheard,
) -> Gradient:
    """Follow the gradient back through an RNN, a GRU, an LSTM and a Transformer, untrained and trained in `folder`."""
    flows: list[Flow] = []
    followed = 0
    for label, recipe in recipes(corpus, steps, seed, width, reach).items():
        run, progress = trained(label, recipe, corpus.base, folder / label.lower(), heard)
        whole = np.flatnonzero(run.task.lengths(run.valid) == reach + POSITIONS)[:sequences]
        if not len(whole):
            raise ValueError(
                f"{corpus.name}: what is kept for validation is shorter than {reach + POSITIONS} tokens; give more text"
            )
        batch, followed = run.task.collate(run.valid, whole), len(whole)
        first, last = run.job(Ranks(), shown=False).model, load(folder / label.lower() / "model").model
        assert isinstance(first, Model) and progress.best is not None
        size = sum(p.numel() for p in last.parameters())
        flows.append(Flow(label, size, norms(first, batch, reach), norms(last, batch, reach), round(progress.best, 4)))
    return Gradient(steps, reach, followed, POSITIONS, tuple(flows))


def norms(model: Model, batch: Batch, reach: int) -> tuple[float, ...]:
    """The norms of d loss(t) / d input(t - k) for k from 0 to `reach`, their mean over the last tokens of a batch.

    Inputs are the vectors that enter the first layer. All sequences are equally long.
    """
    inputs: list[Tensor] = []

    def cut(module: nn.Module, given: Any, x: Tensor) -> Tensor:  # what comes before the layers is left out
        inputs.append(x.detach().requires_grad_())
        return inputs[0]

    assert model.decoder is not None
    hook = model.decoder.embedding.register_forward_hook(cut)
    try:
        scores = model.eval()(batch.ids, batch.layout)
    finally:
        hook.remove()
    count, length = batch.layout.num_sequences, batch.layout.max_len
    losses = F.cross_entropy(scores.float(), batch.labels, reduction="none").view(count, length)
    total = torch.zeros(reach + 1)
    for t in range(reach, length):
        (grad,) = torch.autograd.grad(losses[:, t].sum(), inputs, retain_graph=True)  # (N, D)
        back = grad.norm(dim=1).view(count, length)[:, t - reach : t + 1].flip(1)  # (B, K), the nearest first
        total += back.mean(0)
    return tuple(float(f"{x:.4g}") for x in (total / (length - reach)).tolist())


def draw(measured: Gradient) -> Figure:
    """Two panels: untrained and trained, the norms against the distance, on a logarithmic axis."""
    far = [float(k) for k in range(measured.reach + 1)]
    ends = [x for flow in measured.flows for x in (*flow.initial, *flow.trained) if x > 0]
    panels = [
        Panel(
            [Curve(flow.label, far, values(flow)) for flow in measured.flows],
            "distance k (letters)",
            "mean norm of d loss(t) / d input(t − k)",
            title,
            y_scale="log",
            y_range=(max(min(ends), FLOOR) / 2, 2 * max(ends)),
        )
        for title, values in (("untrained", _initial), (f"after {measured.steps:,} steps", _trained))
    ]
    return draw_curves(panels, "The gradient on its way back through a text", width=5.2, height=4.2)


def _initial(flow: Flow) -> tuple[float, ...]:
    return flow.initial


def _trained(flow: Flow) -> tuple[float, ...]:
    return flow.trained
