"""Head plots: the statistics of all heads over a corpus, one heatmap per statistic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from clearhead.analysis.head_statistics import STATISTICS, HeadRow
from clearhead.viz.style import LIGHT, Theme, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 4  # panels side by side
_TITLES = {
    "entropy": "entropy (nats)",
    "distance": "distance (tokens)",
    "first": "attention to the first token",
    "previous": "attention to the previous token",
    "next": "attention to the next token",
    "same": "attention to the same token",
    "special": "attention to special tokens",
    "effect": "loss increase when ablated",
}
_PROBABILITIES = ("first", "previous", "next", "same", "special")


def draw_head_statistics(rows: Sequence[HeadRow], title: str, theme: Theme = LIGHT) -> Figure:
    """Draw a panel per statistic, with layers as rows and heads as columns."""
    layers = list(dict.fromkeys(row.layer for row in rows))
    heads = max(row.head for row in rows) + 1
    names = [*STATISTICS, *(["effect"] if rows[0].effect is not None else [])]
    panel_rows = -(-len(names) // COLUMNS)
    with new_figure(11.5, panel_rows * (0.27 * len(layers) + 1.1) + 0.5, title, theme) as figure:
        panels = figure.subplots(panel_rows, COLUMNS, squeeze=False).flat
        for axes, name in zip(panels, [*names, *[None] * (2 * COLUMNS)], strict=False):
            if name is None:
                axes.axis("off")
                continue
            values = torch.full((len(layers), heads), float("nan"))
            for row in rows:
                values[layers.index(row.layer), row.head] = getattr(row, name)
            signed = name == "effect"
            bound = float(values.nan_to_num().abs().max()) or 1.0
            limits = {"vmin": -bound, "vmax": bound} if signed else {"vmin": 0, "vmax": None}
            if name in _PROBABILITIES:
                limits = {"vmin": 0, "vmax": 1}
            image = axes.imshow(values.numpy(), cmap="PuOr_r" if signed else theme.colormap, aspect="auto", **limits)
            axes.set_title(_TITLES[name])
            axes.set_xticks(range(0, heads, 2))
            axes.set_yticks(range(len(layers)), layers if axes.get_subplotspec().is_first_col() else [])
            figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02)
    return figure
