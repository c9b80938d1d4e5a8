"""Scaling: the loss of language models against parameters, tokens and compute, and the law that fits them.

L(N, D) = E + A / N**a + B / D**b (Hoffmann et al. 2022): what no model learns, what the model is too small for, and
what it has not read. Every model is trained to the end of its own schedule; nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from clearhead.see import Curve, Panel, draw_curves
from clearhead.studies.trained import Heard, trained, unheard
from clearhead.train import Recipe, make_recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

TEXT = ("squad:train-v1.1.json",)
WIDTHS = (32, 64, 128, 256)  # a head for every 32, four times as wide inside, a layer for every 64
TOKENS = (250_000, 500_000, 1_000_000, 2_000_000)
DRAWS = 200  # samples of the bootstrap
EXPONENTS = np.exp(np.linspace(np.log(0.03), np.log(1.5), 160))  # that are tried, 2.5 % apart


@dataclass(frozen=True)
class Point:
    """One model at the end of its training."""

    parameters: int  # without those of the tokens' table, which are looked up and not computed with
    tokens: int
    compute: float  # floating-point operations: 6 a parameter and token
    loss: float  # validation, nats a token


@dataclass(frozen=True)
class Value:
    """A parameter of the law, or a loss by it, and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Law:
    """The law that was fitted."""

    E: Value
    A: Value
    a: Value
    B: Value
    b: Value
    error: float  # root of the mean squared relative error


@dataclass(frozen=True)
class Scaling:
    """What was measured."""

    vocab_size: int
    points: tuple[Point, ...]
    law: Law
    by_law: tuple[Value, ...]  # the loss that the law gives for each point


def measure(
    folder: Path,
    *,
    text: Sequence[str] = TEXT,
    base: Path = Path(),
    hold_out: int = 500,
    widths: Sequence[int] = WIDTHS,
    tokens: Sequence[int] = TOKENS,
    vocab_size: int = 4000,
    batch_tokens: int = 2048,
    max_len: int = 128,
    seed: int = 1,
    heard: Heard = unheard,
) -> Scaling:
    """Train every width on every number of tokens."""
    points: list[Point] = []
    words: dict[str, Any] = {"vocab_size": vocab_size}
    for width in widths:
        for count in tokens:
            steps = max(2, count // batch_tokens)
            data = {"train": {"text": list(text)}, "hold_out": hold_out, "max_len": max_len}
            recipe = language_model(data, words, width=width, steps=steps, batch_tokens=batch_tokens, seed=seed)
            run, progress = trained(
                f"width {width}, {count:,} tokens", recipe, base, folder / f"{width}-{count}", heard
            )
            assert progress.best is not None
            words = {"folder": str((folder / f"{widths[0]}-{tokens[0]}" / "tokenizer").absolute())}  # learnt once
            table = vocab_size * width
            size = sum(p.numel() for p in run.shell().parameters()) - table
            read = steps * batch_tokens
            whole = size + table  # the output multiplies by the table too
            points.append(Point(size, read, 6.0 * whole * read, round(progress.best, 4)))
    return Scaling(vocab_size, tuple(points), *fitted(points, seed=seed))


def language_model(
    data: dict[str, Any], tokenizer: dict[str, Any], *, width: int, steps: int, batch_tokens: int, seed: int
) -> Recipe:
    """The recipe of a small one, measured once, at the end."""
    return make_recipe(
        {
            "task": "language_model",
            "seed": seed,
            "data": data,
            "tokenizer": tokenizer,
            "model": {
                "width": width, "num_heads": max(1, width // 32), "num_layers": max(1, width // 64),
                "hidden": 4 * width, "dropout": 0.0,
            },
            "train": {
                "steps": steps,
                "batch_tokens": batch_tokens,
                "optimiser": {"lr": 3e-3 * (64 / width) ** 0.5, "weight_decay": 0.01},
                "schedule": {"kind": "cosine", "warmup": max(1, steps // 10), "final": 0.1},
                "evaluate_every": steps,
                "save_every": steps,
                "keep": 1,
            },
        }
    )  # fmt: skip


def fitted(points: Sequence[Point], *, draws: int = DRAWS, seed: int = 1) -> tuple[Law, tuple[Value, ...]]:
    """The law with the least squared relative error and its losses; intervals by a bootstrap over the runs."""
    names = ("parameters", "tokens", "loss")
    sizes, tokens, losses = (np.array([getattr(p, name) for p in points], dtype=np.float64) for name in names)
    source = np.random.default_rng(seed)
    best = _fit(sizes, tokens, losses, np.ones((1, len(points))))[0]
    chosen = source.integers(len(points), size=(draws, len(points)))
    weights = np.stack([np.bincount(row, minlength=len(points)) for row in chosen]).astype(np.float64)
    others = _fit(sizes, tokens, losses, weights)
    floor, size, by_size, read, by_read = _values(best, others)
    every = [_predicted(fit, sizes, tokens) for fit in others]
    central = _predicted(best, sizes, tokens)
    error = float(np.sqrt(np.mean(np.square(central / losses - 1))))
    return Law(floor, size, by_size, read, by_read, float(f"{error:.3g}")), _values(central, np.array(every))


def _predicted(fit: Floats, sizes: Floats, tokens: Floats) -> Floats:
    """The losses that a law gives."""
    return fit[0] + fit[1] / sizes ** fit[2] + fit[3] / tokens ** fit[4]


def _values(best: Floats, others: Floats) -> tuple[Value, ...]:
    """What was found, with the interval that 95 % of the bootstrap's samples are in."""
    low, high = np.percentile(others, [2.5, 97.5], axis=0)
    return tuple(Value(*(float(f"{x:.4g}") for x in three)) for three in zip(best, low, high, strict=True))


def _fit(sizes: Floats, tokens: Floats, losses: Floats, weights: Floats) -> Floats:
    """E, A, a, B, b for each row of weights of the points, (n, 5).

    For given exponents the law is linear in the rest: of a grid of exponents the best is taken whose E, A and B are not
    negative.
    """
    grid = np.array(list(product(EXPONENTS, EXPONENTS)))
    scale = np.exp(np.log(sizes).mean()), np.exp(np.log(tokens).mean())  # so that numbers stay near 1
    best = np.full((len(weights), 5), np.nan)
    least = np.full(len(weights), np.inf)
    for a, b in grid:
        terms = (
            np.stack([np.ones_like(losses), (sizes / scale[0]) ** -a, (tokens / scale[1]) ** -b], 1) / losses[:, None]
        )
        left = np.einsum("wp,pi,pj->wij", weights, terms, terms) + 1e-12 * np.eye(3)
        found = np.linalg.solve(left, np.einsum("wp,pi->wi", weights, terms)[..., None])[..., 0]  # (n, 3)
        cost = np.einsum("wp,wp->w", weights, (found @ terms.T - 1.0) ** 2)
        better = (cost < least) & (found >= 0).all(1)
        least[better] = cost[better]
        made = [found[:, 0], found[:, 1] * scale[0] ** a, np.full(len(weights), a),
                found[:, 2] * scale[1] ** b, np.full(len(weights), b)]  # fmt: skip
        best[better] = np.stack(made, 1)[better]
    return best[np.isfinite(least)]


def draw(measured: Scaling) -> Figure:
    """The loss against tokens for every size, against parameters for every number of tokens, and against compute.

    The band is where the law would have it.
    """
    points = measured.points
    sizes, reads = sorted({p.parameters for p in points}), sorted({p.tokens for p in points})

    def curves(x: str, by: str, values: Sequence[int]) -> list[Curve]:
        found: list[Curve] = []
        for value in values:
            mine = [(p, law) for p, law in zip(points, measured.by_law, strict=True) if getattr(p, by) == value]
            places, low, high = (
                [log10(getattr(p, x)) for p, _ in mine],
                [v.low for _, v in mine],
                [v.high for _, v in mine],
            )
            found.append(Curve(_short(value), places, [p.loss for p, _ in mine], low, high))
        return found

    panels = [
        Panel(
            curves("tokens", "parameters", sizes), "tokens read", "validation loss, nats a token",
            "a line a model, by its parameters", ticks=[(log10(d), _short(d)) for d in reads],
        ),
        Panel(
            curves("parameters", "tokens", reads), "parameters, without the tokens' table", "",
            "a line a number of tokens", ticks=[(log10(n), _short(n)) for n in sizes],
        ),
        Panel(
            curves("compute", "parameters", sizes), "floating-point operations, powers of ten", "",
            "a line a model, by its parameters",
        ),
    ]  # fmt: skip
    law = measured.law
    told = f"L = {law.E.value:.2f} + {law.A.value:.3g} / N^{law.a.value:.2f} + {law.B.value:.3g} / D^{law.b.value:.2f}"
    return draw_curves(panels, f"Loss against tokens, parameters and compute: {told}", width=4.6, height=4.0)


def _short(count: float) -> str:
    return f"{count / 1e6:.2g} M" if count >= 0.99e6 else f"{count / 1e3:.3g} k"
