"""Figures: the lectures' pictures, drawn from what a model really did.

Each takes an input of a scene and gives a matplotlib figure; `PLOTS` is the table of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.layers import Sinusoidal
from clearhead.see.maps import Map, draw_maps, plain
from clearhead.see.paper import COLOURS, FAINT, LIGHT, MARKERS, Theme, paper
from clearhead.see.scene import Input, Layer, Scene

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 96  # tokens whose names can be read on paper
ROW = 86  # letters of a line of text


def draw_alignment(
    given: Input, layer: str | int | None = None, head: int | None = None, *, theme: Theme = LIGHT
) -> Figure:
    """Who attends to whom in one layer: one head, or the mean of all. Of a translator, the last cross-attention."""
    found = _layer(given, layer)
    weights = found.record.head(head) if head is not None else _mean(found)
    _check_length(weights)
    which = "mean of all heads" if head is None else f"head {head}"
    queries, keys = (given.axes[i].names.words for i in (found.queries, found.keys))
    return draw_maps([Map(which, weights.tolist(), queries, keys)], f"{found.name}: {_short(given)}", theme)


def draw_heads(given: Input, layer: str | int | None = None, *, theme: Theme = LIGHT) -> Figure:
    """All heads of one layer, side by side."""
    found = _layer(given, layer)
    heads = found.record.num_heads
    wide = min(heads, 4)
    tall = -(-heads // wide)
    queries, keys = (given.axes[i].names.words for i in (found.queries, found.keys))
    named = max(len(queries), len(keys)) <= 24
    side = 2.9 if named else 2.2
    with paper(side * wide + 0.6, side * tall + 0.6, f"{found.name}: {_short(given)}", theme) as figure:
        grid = figure.subplots(tall, wide, squeeze=False)
        for head, axes in enumerate(grid.flat):
            if head >= heads:
                axes.axis("off")
                continue
            _shade(axes, _small(found, head), theme)
            axes.set_title(f"head {head}", fontsize=9)
            if named:
                column, below = head % wide, head + wide >= heads
                axes.set_xticks(range(len(keys)), [plain(k) for k in keys] if below else [], rotation=90, fontsize=7)
                axes.set_yticks(range(len(queries)), [plain(q) for q in queries] if column == 0 else [], fontsize=7)
    return figure


def draw_model(given: Input, *, theme: Theme = LIGHT) -> Figure:
    """The whole model at a glance: a line a layer, a square a head."""
    layers = given.layers
    wide = max(layer.record.num_heads for layer in layers)
    with paper(0.72 * wide + 1.3, 0.74 * len(layers) + 0.8, f"every head: {_short(given)}", theme) as figure:
        grid = figure.subplots(len(layers), wide, squeeze=False)
        for line, layer in zip(grid, layers, strict=True):
            for head, axes in enumerate(line):
                if head >= layer.record.num_heads:
                    axes.axis("off")
                    continue
                _shade(axes, _small(layer, head, 48), theme)
                if layer is layers[0]:
                    axes.set_title(str(head), fontsize=8, color=FAINT, loc="center")
            line[0].set_ylabel(layer.name, rotation=0, ha="right", va="center", fontsize=9)
    return figure


def draw_word(
    given: Input, word: str | int, layer: str | int | None = None, head: int | None = None, *, theme: Theme = LIGHT
) -> Figure:
    """One word's attention over its sentence: the darker, the more of it."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    found = _layer(given, layer)
    queries, keys = (given.axes[i].names.words for i in (found.queries, found.keys))
    row = _find(word, queries)
    weights = (found.record.head(head) if head is not None else _mean(found))[row]
    shades = colormaps[theme.shades]
    lines = _lines(keys)
    peak = float(weights.max()) or 1.0
    which = "mean of all heads" if head is None else f"head {head}"
    title = f"where “{queries[row]}” looks: {found.name}, {which}"
    with paper(0.105 * ROW + 0.4, 0.52 * len(lines) + 0.9, title, theme) as figure:
        axes = figure.add_subplot()
        axes.set(xlim=(0, ROW), ylim=(len(lines), 0))
        axes.axis("off")
        for y, line in enumerate(lines):
            x = 0.0
            for key in line:
                share = float(weights[key]) / peak
                middle = x + 0.5 * _wide(keys[key])
                look = {"boxstyle": "round,pad=0.25", "facecolor": to_hex(shades(share)), "edgecolor": "none"}
                ink = "white" if (share > 0.55) != theme.dark else "#16202c"
                if key == row and found.kind == "self":
                    look["edgecolor"] = COLOURS[1]
                axes.text(middle, y + 0.36, plain(keys[key]), ha="center", va="center", color=ink, bbox=look)
                if float(weights[key]) >= 0.05:
                    text = f"{float(weights[key]):.2f}"
                    axes.text(middle, y + 0.8, text, ha="center", va="center", fontsize=7, color=FAINT)
                x += _wide(keys[key])
    return figure


def draw_facts(given: Input, *, theme: Theme = LIGHT) -> Figure:
    """Entropy and distance of every head: which look at one word, which at all; which near, which far."""
    with paper(6.4, 4.6, f"every head: {_short(given)}", theme) as figure:
        axes = figure.add_subplot()
        for number, layer in enumerate(given.layers):
            facts = layer.record.facts()
            if facts is None:
                raise ValueError(f"{layer.name} came without its entropy and distance: they are measured by `look`")
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number // len(COLOURS) % len(MARKERS)]
            axes.scatter(facts[1], facts[0], color=colour, marker=marker, s=46, label=layer.name, alpha=0.85, lw=0)
            for head, (x, y) in enumerate(zip(facts[1], facts[0], strict=True)):
                axes.annotate(str(head), (x, y), (3, 3), textcoords="offset points", fontsize=7, color=FAINT)
        axes.set_xlabel("distance: how far it looks, in tokens")
        axes.set_ylabel("entropy: how spread it is, in nats")
        axes.grid(True)
        axes.set_axisbelow(True)
        figure.legend(loc="outside right center", frameon=False, fontsize=8)
    return figure


def rollout(given: Input) -> Tensor:
    """How much of each word reaches each output of the first stack: half by the residual, half by the mean of heads."""
    layers = [layer for layer in given.layers if layer.kind == "self" and layer.queries == 0]
    if not layers:
        raise ValueError("rollout goes through self-attention, and there is none here")
    flow = torch.eye(layers[0].record.shape[0])
    for layer in layers:
        flow = 0.5 * flow + 0.5 * _mean(layer) @ flow
    return flow


def draw_rollout(given: Input, *, theme: Theme = LIGHT) -> Figure:
    """How much of each word of the input reaches each output through all layers."""
    words, flow = given.axes[0].names.words, rollout(given)
    _check_length(flow)
    share = flow / flow.amax(1, keepdim=True)
    title = "what reaches each word, its largest as 1"
    return draw_maps([Map(title, share.tolist(), words, words)], "rollout", theme)


def draw_sinusoids(length: int = 60, width: int = 128, *, theme: Theme = LIGHT) -> Figure:
    """The sinusoids that tell a Transformer the place of a word (Vaswani et al. 2017, 3.5)."""
    table = Sinusoidal(length, width)(Layout.of([length]))
    with paper(8.4, 3.6, "sinusoidal positions", theme) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        shown = left.imshow(table.numpy(), aspect="auto", cmap="PuOr_r", vmin=-1, vmax=1, interpolation="nearest")
        left.set(xlabel="dimension", ylabel="position")
        figure.colorbar(shown, ax=left, shrink=0.8)
        for number, dimension in enumerate((0, 8, 16, 32)):
            right.plot(table[:, dimension], color=COLOURS[number], lw=2, label=str(dimension))
        right.set(xlabel="position", title="four of the dimensions")
        right.legend(frameon=False, fontsize=8, loc="lower left", ncols=4)
    return figure


def draw_bert_input(
    words: Sequence[str], parts: Sequence[tuple[str, Sequence[str], Tensor]], *, theme: Theme = LIGHT
) -> Figure:
    """What an encoder's first layer gets: token, segment and position embeddings (name, labels, vectors (T, D)), added.

    Each box carries the first numbers of the real vector below its name.
    """
    _check_length(parts[0][2])
    total = torch.stack([vectors for _, _, vectors in parts]).sum(0)
    rows = [*parts, ("sum", [""] * len(words), total)]
    colours = [COLOURS[5], COLOURS[2], COLOURS[4], COLOURS[0]]
    with paper(0.92 * len(words) + 1.6, 0.95 * len(rows) + 1.2, "what the first layer reads", theme) as figure:
        axes = figure.add_subplot()
        axes.set(xlim=(-1.7, len(words)), ylim=(len(rows) + 1.0, 0.2))
        axes.axis("off")
        for i, word in enumerate(words):
            axes.text(i + 0.5, 0.55, plain(word), ha="center", va="center", fontsize=10, weight="bold")
        for y, (name, labels, vectors) in enumerate(rows):
            axes.text(-0.15, y + 1.3, name, ha="right", va="center", fontsize=10)
            sign = "=" if y == len(rows) - 1 else "+" if y else ""
            axes.text(-1.6, y + 1.3, sign, ha="left", va="center", fontsize=14, color=FAINT)
            bound = float(vectors[:, :32].abs().max()) or 1.0
            for i in range(len(words)):
                axes.add_patch(_box(i, y + 0.95, colours[y % len(colours)]))
                axes.text(i + 0.5, y + 1.14, plain(labels[i]), ha="center", va="center", fontsize=8)
                strip = vectors[i, :32].view(1, -1).numpy()
                where = (i + 0.08, i + 0.92, y + 1.58, y + 1.32)
                axes.imshow(strip, extent=where, aspect="auto", cmap="PuOr_r", vmin=-bound, vmax=bound, zorder=3)
    return figure


PLOTS: dict[str, Callable[..., Any]] = {
    "alignment": draw_alignment,
    "heads": draw_heads,
    "model": draw_model,
    "word": draw_word,
    "facts": draw_facts,
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
    """One of the figures of an input, by its name."""
    if kind not in PLOTS:
        raise ValueError(f"there is no figure {kind!r}: choose {', '.join(PLOTS)}")
    given = scene.inputs[sequence]
    options: dict[str, Any] = {"layer": layer, "head": head, "word": word}
    if kind == "word" and word is None:
        raise ValueError("whose attention? Give a word, such as one of: " + " ".join(given.axes[-1].names.words[:20]))
    taken = {k: v for k, v in options.items() if v is not None}
    known = signature(PLOTS[kind]).parameters
    if strange := [k for k in taken if k not in known]:
        raise ValueError(f"the figure {kind!r} takes no {strange[0]}")
    return PLOTS[kind](given, theme=theme, **taken)


def _box(x: float, y: float, colour: str) -> Any:
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (x + 0.06, y), 0.88, 0.7, boxstyle="round,pad=0,rounding_size=0.08", facecolor=colour, alpha=0.35, lw=0
    )


def _layer(given: Input, wanted: str | int | None) -> Layer:
    if wanted is not None:
        return given.layer(wanted)
    crossing = [layer for layer in given.layers if layer.kind == "cross"]
    return crossing[-1] if crossing else given.layers[-1]


def _mean(layer: Layer) -> Tensor:
    total = layer.record.head(0)
    for head in range(1, layer.record.num_heads):
        total = total + layer.record.head(head)
    return total / layer.record.num_heads


def _small(layer: Layer, head: int, most: int = 160) -> Tensor:
    T, S = layer.record.shape
    return layer.record.tile(head, slice(0, T), slice(0, S), (most, most), "max")


def _shade(axes: Axes, weights: Tensor, theme: Theme) -> None:
    axes.imshow(weights.sqrt().numpy(), cmap=theme.shades, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(visible=True, color=FAINT, linewidth=0.5)


def _check_length(weights: Tensor) -> None:
    if max(weights.shape[0], 1) > MOST:
        raise ValueError(
            f"{weights.shape[0]} words cannot be read on paper (at most {MOST}): open the page with `show`"
        )


def _find(word: str | int, words: Sequence[str]) -> int:
    if isinstance(word, int):
        if not 0 <= word < len(words):
            raise ValueError(f"there is no word {word}: words are 0 to {len(words) - 1}")
        return word
    if word not in words:
        raise ValueError(f"{word!r} is not among the words: {' '.join(words[:40])}")
    return list(words).index(word)


def _wide(word: str) -> float:
    return len(word) + 1.8


def _lines(words: Sequence[str]) -> list[list[int]]:
    """Words broken into lines, by their numbers."""
    lines: list[list[int]] = [[]]
    used = 0.0
    for i, word in enumerate(words):
        if lines[-1] and used + _wide(word) > ROW:
            lines.append([])
            used = 0.0
        lines[-1].append(i)
        used += _wide(word)
    return lines


def _short(given: Input) -> str:
    return given.label if len(given.label) <= 46 else given.label[:45] + "…"
