"""Scaling laws: language-model loss by parameters, tokens and compute, with a fitted law.

L(N, D) = E + A / N**a + B / D**b (Hoffmann et al. 2022): irreducible loss, loss from limited model size,
and loss from limited data. Every model is trained to the end of its own schedule; no token is repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clearhead.studies.training import OnProgress, no_progress, scratch_settings, train_recipe
from clearhead.train import Recipe, make_recipe
from clearhead.viz import Curve, Panel, draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

TEXT = ("squad:train-v1.1.json",)
WIDTHS = (32, 64, 128, 256)  # one head per 32, one layer per 64, ffn_dim 4 x width
TOKENS = (250_000, 500_000, 1_000_000, 2_000_000)
BOOTSTRAP_SAMPLES = 200
EXPONENTS = np.exp(np.linspace(np.log(0.03), np.log(1.5), 160))  # search grid, 2.5 % apart


@dataclass(frozen=True)
class ScalingPoint:
    """One trained model."""

    parameters: int  # without the token embedding, which is a lookup
    tokens: int
    compute: float  # floating-point operations: 6 per parameter and token
    loss: float  # validation, nats per token


@dataclass(frozen=True)
class FittedValue:
    """A parameter or a predicted loss of the law, with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ScalingLaw:
    """The fitted law."""

    E: FittedValue
    A: FittedValue
    a: FittedValue
    B: FittedValue
    b: FittedValue
    error: float  # root mean squared relative error


@dataclass(frozen=True)
class ScalingResult:
    """Results of the study."""

    vocab_size: int
    points: tuple[ScalingPoint, ...]
    law: ScalingLaw
    by_law: tuple[FittedValue, ...]  # predicted loss of each point


def measure(
    folder: Path,
    *,
    text: Sequence[str] = TEXT,
    base: Path = Path(),
    validation_rows: int = 500,
    widths: Sequence[int] = WIDTHS,
    tokens: Sequence[int] = TOKENS,
    vocab_size: int = 4000,
    batch_tokens: int = 2048,
    max_len: int = 128,
    seed: int = 1,
    on_progress: OnProgress = no_progress,
) -> ScalingResult:
    """Train a model for every combination of width and number of tokens, and fit the law."""
    points: list[ScalingPoint] = []
    tokenizer: dict[str, Any] = {"vocab_size": vocab_size}
    for width in widths:
        for count in tokens:
            steps = max(2, count // batch_tokens)
            data = {"train": {"text": list(text)}, "validation_rows": validation_rows, "max_len": max_len}
            recipe = language_model(data, tokenizer, width=width, steps=steps, batch_tokens=batch_tokens, seed=seed)
            name = f"width {width}, {count:,} tokens"
            run, progress = train_recipe(name, recipe, base, folder / f"{width}-{count}", on_progress)
            assert progress.best is not None
            tokenizer = {"folder": str((folder / f"{widths[0]}-{tokens[0]}" / "tokenizer").absolute())}  # trained once
            embedding = vocab_size * width
            size = sum(p.numel() for p in run.empty_model().parameters()) - embedding
            tokens_read = steps * batch_tokens
            total = size + embedding  # the output layer multiplies by the embedding too
            points.append(ScalingPoint(size, tokens_read, 6.0 * total * tokens_read, round(progress.best, 4)))
    return ScalingResult(vocab_size, tuple(points), *fitted(points, seed=seed))


def language_model(
    data: dict[str, Any], tokenizer: dict[str, Any], *, width: int, steps: int, batch_tokens: int, seed: int
) -> Recipe:
    """Return the recipe of a small language model that is evaluated once, at the end."""
    optimizer = {"lr": 3e-3 * (64 / width) ** 0.5, "weight_decay": 0.01}
    return make_recipe(
        {
            "task": "language_model",
            "seed": seed,
            "data": data,
            "tokenizer": tokenizer,
            "model": {
                "width": width, "num_heads": max(1, width // 32), "num_layers": max(1, width // 64),
                "ffn_dim": 4 * width, "dropout": 0.0,
            },
            "train": scratch_settings(steps, batch_tokens, optimizer, {"kind": "cosine", "final": 0.1}),
        }
    )  # fmt: skip


def fitted(
    points: Sequence[ScalingPoint], *, draws: int = BOOTSTRAP_SAMPLES, seed: int = 1
) -> tuple[ScalingLaw, tuple[FittedValue, ...]]:
    """Fit the law by least squared relative error; returns it and its losses, with bootstrap intervals."""
    names = ("parameters", "tokens", "loss")
    sizes, tokens, losses = (np.array([getattr(p, name) for p in points], dtype=np.float64) for name in names)
    rng = np.random.default_rng(seed)
    best = _fit(sizes, tokens, losses, np.ones((1, len(points))))[0]
    sampled = rng.integers(len(points), size=(draws, len(points)))
    weights = np.stack([np.bincount(row, minlength=len(points)) for row in sampled]).astype(np.float64)
    samples = _fit(sizes, tokens, losses, weights)
    E, A, a, B, b = _values(best, samples)
    sampled_losses = [_predicted(fit, sizes, tokens) for fit in samples]
    central = _predicted(best, sizes, tokens)
    error = float(np.sqrt(np.mean(np.square(central / losses - 1))))
    return ScalingLaw(E, A, a, B, b, float(f"{error:.3g}")), _values(central, np.array(sampled_losses))


def _predicted(fit: Floats, sizes: Floats, tokens: Floats) -> Floats:
    return fit[0] + fit[1] / sizes ** fit[2] + fit[3] / tokens ** fit[4]


def _values(best: Floats, samples: Floats) -> tuple[FittedValue, ...]:
    """Return the fitted values with the 2.5 and 97.5 percentiles of the bootstrap samples."""
    low, high = np.percentile(samples, [2.5, 97.5], axis=0)
    return tuple(FittedValue(*(float(f"{x:.4g}") for x in three)) for three in zip(best, low, high, strict=True))


def _fit(sizes: Floats, tokens: Floats, losses: Floats, weights: Floats) -> Floats:
    """Return E, A, a, B, b for each row of point weights, (n, 5).

    For given exponents the law is linear in the other parameters: the best pair of exponents on a grid is taken, with
    E, A and B not negative.
    """
    scale = np.exp(np.log(sizes).mean()), np.exp(np.log(tokens).mean())  # for numerical stability
    best = np.full((len(weights), 5), np.nan)
    lowest_cost = np.full(len(weights), np.inf)
    by_tokens = (tokens / scale[1]) ** -EXPONENTS[:, None]  # (b, points)
    each = np.arange(len(weights))
    for a in EXPONENTS:
        columns = np.broadcast_arrays(np.ones_like(losses), (sizes / scale[0]) ** -a, by_tokens)
        terms = np.stack(columns, 2) / losses[:, None]  # (b, points, 3)
        products = (terms[..., :, None] * terms[..., None, :]).reshape(*terms.shape[:2], 9)
        left = (weights @ products).reshape(-1, len(weights), 3, 3) + 1e-12 * np.eye(3)
        solution = np.linalg.solve(left, (weights @ terms)[..., None])[..., 0]  # (b, n, 3)
        errors = (solution @ terms.transpose(0, 2, 1) - 1.0) ** 2
        cost = np.where((solution >= 0).all(2), (weights * errors).sum(2), np.inf)  # (b, n)
        at = cost.argmin(0)
        E, A, B = solution[at, each].T
        b = EXPONENTS[at]
        fits = np.stack([E, A * scale[0] ** a, np.full_like(E, a), B * scale[1] ** b, b], 1)
        better = cost[at, each] < lowest_cost
        lowest_cost[better], best[better] = cost[at, each][better], fits[better]
    return best[np.isfinite(lowest_cost)]


def draw(measured: ScalingResult) -> Figure:
    """Plot the loss against tokens, parameters and compute; the bands are the 95 % intervals of the fitted law."""
    points = measured.points
    sizes, token_counts = sorted({p.parameters for p in points}), sorted({p.tokens for p in points})

    def curves(x: str, by: str, values: Sequence[int]) -> list[Curve]:
        result: list[Curve] = []
        for value in values:
            selected = [(p, law) for p, law in zip(points, measured.by_law, strict=True) if getattr(p, by) == value]
            positions = [log10(getattr(p, x)) for p, _ in selected]
            low, high = [v.low for _, v in selected], [v.high for _, v in selected]
            result.append(Curve(_short(value), positions, [p.loss for p, _ in selected], low, high))
        return result

    panels = [
        Panel(
            curves("tokens", "parameters", sizes), "training tokens", "validation loss (nats per token)",
            "one line per model size (parameters)", ticks=[(log10(d), _short(d)) for d in token_counts],
        ),
        Panel(
            curves("parameters", "tokens", token_counts), "parameters without token embedding", "",
            "one line per number of training tokens", ticks=[(log10(n), _short(n)) for n in sizes],
        ),
        Panel(
            curves("compute", "parameters", sizes), "log10 of floating-point operations", "",
            "one line per model size (parameters)",
        ),
    ]  # fmt: skip
    law = measured.law
    formula = (
        f"L = {law.E.value:.2f} + {law.A.value:.3g} / N^{law.a.value:.2f} + {law.B.value:.3g} / D^{law.b.value:.2f}"
    )
    return draw_curves(panels, f"Loss against tokens, parameters and compute: {formula}", width=4.6, height=4.0)


def _short(count: float) -> str:
    return f"{count / 1e6:.2g} M" if count >= 0.99e6 else f"{count / 1e3:.3g} k"
