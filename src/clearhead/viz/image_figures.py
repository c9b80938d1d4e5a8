"""Figures of an image: where a patch or a word looks, the rollout, and how far heads look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import Tensor

from clearhead.viz.image_scene import ImageScene
from clearhead.viz.style import COLORS, LIGHT, MUTED, Theme, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IMAGE_INCHES = 1.7
MIN_INCHES = 7.4  # of a whole figure: a title fits
COLUMNS = 6

Place = str | tuple[int, int] | None
"""The token that looks: a learned one by its name, or a patch by its row and column."""


def draw_image_heads(
    scene: ImageScene, *, layer: str | int | None = None, patch: Place = None, theme: Theme = LIGHT
) -> Figure:
    """Draw where a token looks in each head of a layer, the last one by default; the first picture is the image."""
    chosen, token = scene.layer(layer), scene.token(patch)
    maps = [(f"head {h}", scene.cells(chosen.attention.head(h)[token])) for h in range(chosen.attention.num_heads)]
    return _draw(scene, maps, f"{chosen.name}: where {_name(scene, token)} looks", token, theme)


def draw_image_rollout(scene: ImageScene, *, patch: Place = None, theme: Theme = LIGHT) -> Figure:
    """Draw the attention rollout of all layers for a token."""
    token = scene.token(patch)
    maps = [("rollout", scene.cells(scene.rollout()[token]))]
    return _draw(scene, maps, f"attention rollout of {_name(scene, token)}", token, theme)


def draw_distances(scene: ImageScene, *, theme: Theme = LIGHT) -> Figure:
    """Draw the mean distance of attention for each head, by layer (Dosovitskiy et al. 2021, figure 7)."""
    with new_figure(0.45 * len(scene.layers) + 3.8, 3.6, "mean attention distance", theme) as figure:
        axes = figure.add_subplot()
        for number, values in enumerate(scene.distances()):
            names = ("a head", "mean of the layer") if number == 0 else (None, None)
            mean = [float(values.mean())] * 2
            axes.scatter(
                [number] * len(values), values.tolist(), color=COLORS[0], s=30, alpha=0.7, lw=0, label=names[0]
            )
            axes.plot([number - 0.3, number + 0.3], mean, color=COLORS[1], lw=2, label=names[1])
        axes.set(xlabel="layer", ylabel="patches", xticks=range(len(scene.layers)), ylim=(0, None))
        axes.legend(loc="lower right", frameon=False, fontsize=9)
        axes.grid(True, axis="y")
        axes.set_axisbelow(True)
    return figure


def draw_words(scene: ImageScene, *, layer: str | None = None, theme: Theme = LIGHT) -> Figure:
    """Draw where each word of a caption looks: the mean of all heads, of all layers or of one."""
    if scene.caption is None or not scene.caption.words:
        raise ValueError("no caption was captured: call `caption` inside `look`")
    words = zip(scene.caption.words, scene.caption.maps(layer), strict=True)
    maps = [(word, scene.cells(weights)) for word, weights in words]
    return _draw(scene, maps, " ".join(scene.caption.words), None, theme)


IMAGE_PLOTS: dict[str, Any] = {
    "heads": draw_image_heads, "rollout": draw_image_rollout, "distance": draw_distances, "words": draw_words
}  # fmt: skip


def plot_image(
    scene: ImageScene, kind: str, *, layer: str | int | None = None, patch: Place = None, theme: Theme = LIGHT
) -> Figure:
    """Return a figure of an image, by its name in `IMAGE_PLOTS`."""
    if kind not in IMAGE_PLOTS:
        raise ValueError(f"there is no figure {kind!r} of an image: choose {', '.join(IMAGE_PLOTS)}")
    accepted = {"heads": ("layer", "patch"), "rollout": ("patch",), "distance": (), "words": ("layer",)}[kind]
    given = {name: value for name, value in (("layer", layer), ("patch", patch)) if value is not None}
    if refused := [name for name in given if name not in accepted]:
        raise ValueError(f"the figure {kind!r} does not accept {refused[0]!r}: omit it")
    return IMAGE_PLOTS[kind](scene, theme=theme, **given)


def _draw(scene: ImageScene, maps: list[tuple[str, Tensor]], title: str, token: int | None, theme: Theme) -> Figure:
    columns = min(COLUMNS, len(maps) + 1)
    rows = -(-(len(maps) + 1) // columns)
    height, width = scene.pixels.shape[1:]
    inches = max(IMAGE_INCHES, MIN_INCHES / columns)
    size = columns * inches + 0.3, rows * (inches * height / width + 0.3) + 0.5
    with new_figure(*size, title, theme) as figure:
        drawn = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
        _picture(drawn[0], scene, None, token)
        drawn[0].set_title("image", fontsize=9, color=MUTED)
        for axes, (name, weights) in zip(drawn[1:], maps, strict=False):
            _picture(axes, scene, weights, token)
            axes.set_title(f"{name}: at most {100 * float(weights.max()):.0f} %", fontsize=9, color=MUTED)
        for axes in drawn:
            axes.axis("off")
    return figure


def _picture(axes: Axes, scene: ImageScene, weights: Tensor | None, token: int | None) -> None:
    from matplotlib.patches import Rectangle

    pixels = scene.pixels.permute(1, 2, 0)
    height, width = pixels.shape[:2]
    if weights is None:
        axes.imshow(pixels.numpy(), interpolation="nearest")
    else:
        gray = pixels.float().mean(2) / 255
        axes.imshow(gray.numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        sizes = (height, width)
        heat = F.interpolate(weights[None, None], sizes, mode="nearest")[0, 0] / _brightest(weights)
        axes.imshow(heat.numpy(), cmap="inferno", vmin=0, vmax=1, alpha=0.62, interpolation="nearest")
    if token is not None and token >= scene.num_learned:
        row, column = divmod(token - scene.num_learned, scene.grid[1])
        h, w = height / scene.grid[0], width / scene.grid[1]
        axes.add_patch(Rectangle((column * w - 0.5, row * h - 0.5), w, h, fill=False, ec="#00e5ff", lw=1.5))


def _brightest(weights: Tensor) -> float:
    """Return the weight that is drawn brightest: the largest, but at least three times that of even attention."""
    return max(float(weights.max()), 3 / weights.numel())


def _name(scene: ImageScene, token: int) -> str:
    if token < scene.num_learned:
        return f"the {scene.learned[token]}"
    row, column = divmod(token - scene.num_learned, scene.grid[1])
    return f"the patch in row {row}, column {column}"
