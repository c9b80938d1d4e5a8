"""Attention figures, drawn with matplotlib from captured attention.

Each function takes an input of a scene and returns a figure; `PLOTS` maps names to functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.layers import SinusoidalPositions
from clearhead.viz.heatmaps import Heatmap, draw_heatmaps, printable_token
from clearhead.viz.scene import Scene, SceneInput, SceneLayer, rollout
from clearhead.viz.style import COLORS, LIGHT, MARKERS, MUTED, TEXT, Theme, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_TOKENS = 96  # tokens whose labels stay readable
LINE_CHARACTERS = 86  # characters per line of text


def draw_alignment(
    given: SceneInput, layer: str | int | None = None, head: int | None = None, *, theme: Theme = LIGHT
) -> Figure:
    """Draw the attention map of one layer: one head, or the mean of all heads.

    The default layer is the last cross-attention of an encoder-decoder, otherwise the last layer.
    """
    chosen = _layer(given, layer)
    weights = chosen.attention.head(head) if head is not None else chosen.mean()
    _check_length(weights)
    which = "mean of all heads" if head is None else f"head {head}"
    queries, keys = (given.axes[i].names.words for i in (chosen.queries, chosen.keys))
    return draw_heatmaps([Heatmap(which, weights.tolist(), queries, keys)], f"{chosen.name}: {_short(given)}", theme)


def draw_heads(given: SceneInput, layer: str | int | None = None, *, theme: Theme = LIGHT) -> Figure:
    """Draw all heads of one layer side by side."""
    chosen = _layer(given, layer)
    heads = chosen.attention.num_heads
    columns = min(heads, 4)
    rows = -(-heads // columns)
    queries, keys = (given.axes[i].names.words for i in (chosen.queries, chosen.keys))
    labelled = max(len(queries), len(keys)) <= 24
    side = 2.9 if labelled else 2.2
    with new_figure(side * columns + 0.6, side * rows + 0.6, f"{chosen.name}: {_short(given)}", theme) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for head, axes in enumerate(grid.flat):
            if head >= heads:
                axes.axis("off")
                continue
            _draw_weights(axes, _downsample(chosen, head), theme)
            axes.set_title(f"head {head}", fontsize=9)
            if labelled:
                column, is_last_row = head % columns, head + columns >= heads
                names = [printable_token(k) for k in keys] if is_last_row else []
                axes.set_xticks(range(len(keys)), names, rotation=90, fontsize=7)
                names = [printable_token(q) for q in queries] if column == 0 else []
                axes.set_yticks(range(len(queries)), names, fontsize=7)
    return figure


def draw_model(given: SceneInput, *, theme: Theme = LIGHT) -> Figure:
    """Draw every head of the model: a row per layer, a square per head."""
    layers = given.layers
    columns = max(layer.attention.num_heads for layer in layers)
    with new_figure(0.72 * columns + 1.3, 0.74 * len(layers) + 0.8, f"all heads: {_short(given)}", theme) as figure:
        grid = figure.subplots(len(layers), columns, squeeze=False)
        for row, layer in zip(grid, layers, strict=True):
            for head, axes in enumerate(row):
                if head >= layer.attention.num_heads:
                    axes.axis("off")
                    continue
                _draw_weights(axes, _downsample(layer, head, 48), theme)
                if layer is layers[0]:
                    axes.set_title(str(head), fontsize=8, color=MUTED, loc="center")
            row[0].set_ylabel(layer.name, rotation=0, ha="right", va="center", fontsize=9)
    return figure


def draw_word(
    given: SceneInput, word: str | int, layer: str | int | None = None, head: int | None = None, *, theme: Theme = LIGHT
) -> Figure:
    """Draw the attention of one token over its sentence: darker tokens have larger weights."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    chosen = _layer(given, layer)
    queries, keys = (given.axes[i].names.words for i in (chosen.queries, chosen.keys))
    row = _find(word, queries)
    weights = (chosen.attention.head(head) if head is not None else chosen.mean())[row]
    colormap = colormaps[theme.colormap]
    lines = _lines(keys)
    peak = float(weights.max()) or 1.0
    which = "mean of all heads" if head is None else f"head {head}"
    title = f"attention from “{queries[row]}”: {chosen.name}, {which}"
    with new_figure(0.105 * LINE_CHARACTERS + 0.4, 0.52 * len(lines) + 0.9, title, theme) as figure:
        axes = figure.add_subplot()
        axes.set(xlim=(0, LINE_CHARACTERS), ylim=(len(lines), 0))
        axes.axis("off")
        for y, line in enumerate(lines):
            x = 0.0
            for key in line:
                share = float(weights[key]) / peak
                middle = x + 0.5 * _width(keys[key])
                box = {"boxstyle": "round,pad=0.25", "facecolor": to_hex(colormap(share)), "edgecolor": "none"}
                color = "white" if (share > 0.55) != theme.dark else TEXT
                if key == row and chosen.kind == "self":
                    box["edgecolor"] = COLORS[1]
                axes.text(middle, y + 0.36, printable_token(keys[key]), ha="center", va="center", color=color, bbox=box)
                if float(weights[key]) >= 0.05:
                    text = f"{float(weights[key]):.2f}"
                    axes.text(middle, y + 0.8, text, ha="center", va="center", fontsize=7, color=MUTED)
                x += _width(keys[key])
    return figure


def draw_head_stats(given: SceneInput, *, theme: Theme = LIGHT) -> Figure:
    """Draw the mean entropy of every head against its mean attention distance."""
    with new_figure(6.4, 4.6, f"all heads: {_short(given)}", theme) as figure:
        axes = figure.add_subplot()
        for number, layer in enumerate(given.layers):
            stats = layer.attention.head_stats()
            if stats is None:
                raise ValueError(f"{layer.name} has no head statistics: they need attention captured with `look`")
            color, marker = COLORS[number % len(COLORS)], MARKERS[number // len(COLORS) % len(MARKERS)]
            axes.scatter(stats[1], stats[0], color=color, marker=marker, s=46, label=layer.name, alpha=0.85, lw=0)
            for head, (x, y) in enumerate(zip(stats[1], stats[0], strict=True)):
                axes.annotate(str(head), (x, y), (3, 3), textcoords="offset points", fontsize=7, color=MUTED)
        axes.set_xlabel("mean attention distance (tokens)")
        axes.set_ylabel("mean entropy (nats)")
        axes.grid(True)
        axes.set_axisbelow(True)
        figure.legend(loc="outside right center", frameon=False, fontsize=8)
    return figure


def input_rollout(given: SceneInput) -> Tensor:
    """Return the attention rollout of the first stack of an input, (T, T)."""
    layers = [layer for layer in given.layers if layer.kind == "self" and layer.queries == 0]
    if not layers:
        raise ValueError("rollout needs self-attention layers in the first stack, and this input has none")
    return rollout(layers)


def draw_rollout(given: SceneInput, *, theme: Theme = LIGHT) -> Figure:
    """Draw the attention rollout: how much each input token contributes to each output."""
    words, flow = given.axes[0].names.words, input_rollout(given)
    _check_length(flow)
    scaled = flow / flow.amax(1, keepdim=True)
    title = "contribution of each input token (largest = 1)"
    return draw_heatmaps([Heatmap(title, scaled.tolist(), words, words)], "attention rollout", theme)


def draw_sinusoids(length: int = 60, width: int = 128, *, theme: Theme = LIGHT) -> Figure:
    """Draw sinusoidal position encodings (Vaswani et al. 2017, section 3.5)."""
    table = SinusoidalPositions(length, width)(Layout.from_lengths([length]))
    with new_figure(8.4, 3.6, "sinusoidal position encodings", theme) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        image = left.imshow(table.numpy(), aspect="auto", cmap="PuOr_r", vmin=-1, vmax=1, interpolation="nearest")
        left.set(xlabel="dimension", ylabel="position")
        figure.colorbar(image, ax=left, shrink=0.8)
        for number, dimension in enumerate((0, 8, 16, 32)):
            right.plot(table[:, dimension], color=COLORS[number], lw=2, label=str(dimension))
        right.set(xlabel="position", title="four dimensions")
        right.legend(frameon=False, fontsize=8, loc="lower left", ncols=4)
    return figure


def draw_bert_input(
    words: Sequence[str], parts: Sequence[tuple[str, Sequence[str], Tensor]], *, theme: Theme = LIGHT
) -> Figure:
    """Draw the input of an encoder: token, segment and position embeddings and their sum.

    Each part is a name, labels and vectors (T, D); below each label are the first 32 values of the vector.
    """
    _check_length(parts[0][2])
    total = torch.stack([vectors for _, _, vectors in parts]).sum(0)
    rows = [*parts, ("sum", [""] * len(words), total)]
    colors = [COLORS[5], COLORS[2], COLORS[4], COLORS[0]]
    with new_figure(0.92 * len(words) + 1.6, 0.95 * len(rows) + 1.2, "input embeddings", theme) as figure:
        axes = figure.add_subplot()
        axes.set(xlim=(-1.7, len(words)), ylim=(len(rows) + 1.0, 0.2))
        axes.axis("off")
        for i, word in enumerate(words):
            axes.text(i + 0.5, 0.55, printable_token(word), ha="center", va="center", fontsize=10, weight="bold")
        for y, (name, labels, vectors) in enumerate(rows):
            axes.text(-0.15, y + 1.3, name, ha="right", va="center", fontsize=10)
            sign = "=" if y == len(rows) - 1 else "+" if y else ""
            axes.text(-1.6, y + 1.3, sign, ha="left", va="center", fontsize=14, color=MUTED)
            bound = float(vectors[:, :32].abs().max()) or 1.0
            for i in range(len(words)):
                axes.add_patch(_box(i, y + 0.95, colors[y % len(colors)]))
                axes.text(i + 0.5, y + 1.14, printable_token(labels[i]), ha="center", va="center", fontsize=8)
                strip = vectors[i, :32].view(1, -1).numpy()
                extent = (i + 0.08, i + 0.92, y + 1.58, y + 1.32)
                axes.imshow(strip, extent=extent, aspect="auto", cmap="PuOr_r", vmin=-bound, vmax=bound, zorder=3)
    return figure


PLOTS: dict[str, Callable[..., Any]] = {
    "alignment": draw_alignment,
    "heads": draw_heads,
    "model": draw_model,
    "word": draw_word,
    "head_stats": draw_head_stats,
    "rollout": draw_rollout,
}


def plot(
    scene: Scene,
    kind: str,
    *,
    sequence: int = 0,
    layer: str | int | None = None,
    head: int | None = None,
    word: str | int | None = None,
    theme: Theme = LIGHT,
) -> Figure:
    """Return one figure of an input, by its name in `PLOTS`."""
    if kind not in PLOTS:
        raise ValueError(f"there is no figure {kind!r}: choose {', '.join(PLOTS)}")
    given = scene.inputs[sequence]
    options: dict[str, Any] = {"layer": layer, "head": head, "word": word}
    if kind == "word" and word is None:
        raise ValueError("the figure 'word' needs a word, such as one of: " + " ".join(given.axes[-1].names.words[:20]))
    given_options = {k: v for k, v in options.items() if v is not None}
    accepted = signature(PLOTS[kind]).parameters
    if refused := [k for k in given_options if k not in accepted]:
        raise ValueError(f"the figure {kind!r} does not accept {refused[0]!r}: omit it")
    return PLOTS[kind](given, theme=theme, **given_options)


def _box(x: float, y: float, color: str) -> Any:
    from matplotlib.patches import FancyBboxPatch

    style: dict[str, Any] = {"facecolor": color, "alpha": 0.35, "lw": 0}
    return FancyBboxPatch((x + 0.06, y), 0.88, 0.7, boxstyle="round,pad=0,rounding_size=0.08", **style)


def _layer(given: SceneInput, name: str | int | None) -> SceneLayer:
    if name is not None:
        return given.layer(name)
    cross = [layer for layer in given.layers if layer.kind == "cross"]
    return cross[-1] if cross else given.layers[-1]


def _downsample(layer: SceneLayer, head: int, max_cells: int = 160) -> Tensor:
    T, S = layer.attention.shape
    return layer.attention.tile(head, slice(0, T), slice(0, S), (max_cells, max_cells), "max")


def _draw_weights(axes: Axes, weights: Tensor, theme: Theme) -> None:
    axes.imshow(weights.sqrt().numpy(), cmap=theme.colormap, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(visible=True, color=MUTED, linewidth=0.5)


def _check_length(weights: Tensor) -> None:
    if weights.shape[0] > MAX_TOKENS:
        raise ValueError(f"{weights.shape[0]} tokens are too many for a figure (at most {MAX_TOKENS}): use `show`")


def _find(word: str | int, words: Sequence[str]) -> int:
    if isinstance(word, int):
        if not 0 <= word < len(words):
            raise ValueError(f"there is no token {word}: choose 0 to {len(words) - 1}")
        return word
    if word not in words:
        raise ValueError(f"{word!r} is not a token of the input: choose one of {' '.join(words[:40])}")
    return list(words).index(word)


def _width(word: str) -> float:
    return len(word) + 1.8


def _lines(words: Sequence[str]) -> list[list[int]]:
    lines: list[list[int]] = [[]]
    used = 0.0
    for i, word in enumerate(words):
        if lines[-1] and used + _width(word) > LINE_CHARACTERS:
            lines.append([])
            used = 0.0
        lines[-1].append(i)
        used += _width(word)
    return lines


def _short(given: SceneInput) -> str:
    return given.label if len(given.label) <= 46 else given.label[:45] + "…"
