"""An image with the attention between its patches: the data of its page and of its figures."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.viz.page import embedded_page
from clearhead.viz.scene import SceneLayer, rollout
from clearhead.viz.token_labels import TokenLabels

MAX_CELLS = 1024  # of a page: more patches are joined, 2 x 2 or more
MAX_BYTES = 24_000_000  # of the weights of a page, likewise
LEARNED = ("class token", "distillation token")


@dataclass(frozen=True, eq=False)
class ImageInput:
    """An image as a model read it."""

    pixels: Tensor  # (3, H, W), normalized
    patch_size: int

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.pixels.shape[1] // self.patch_size, self.pixels.shape[2] // self.patch_size


@dataclass(frozen=True, eq=False)
class CaptionWords:
    """The words of a caption, and the attention of each to the image in the layers of a decoder."""

    words: tuple[str, ...]
    layers: Mapping[str, Tensor]  # (heads, words, T) by name; the tokens of a word are averaged

    @staticmethod
    def join(labels: TokenLabels, layers: Mapping[str, Tensor]) -> CaptionWords:
        """Join the tokens of each word; `layers` are (heads, tokens, T). Special tokens are left out."""
        groups: list[list[int]] = []
        for i, (special, joined) in enumerate(zip(labels.special, labels.joined, strict=True)):
            if special:
                continue
            if joined and groups:
                groups[-1].append(i)
            else:
                groups.append([i])
        words = tuple("".join(labels.words[i] for i in group) for group in groups)
        means = {
            name: torch.stack([weights[:, group].mean(1) for group in groups], 1) for name, weights in layers.items()
        }
        return CaptionWords(words, means)

    def maps(self, layer: str | None = None) -> Tensor:
        """Return the mean of all heads of a layer, or of all layers, (words, T)."""
        if layer is None:
            return torch.stack([weights.mean(0) for weights in self.layers.values()]).mean(0)
        if layer not in self.layers:
            raise ValueError(f"there is no layer {layer!r} that attends to the image: choose {', '.join(self.layers)}")
        return self.layers[layer].mean(0)


@dataclass(frozen=True, eq=False)
class ImageScene:
    """An image with the captured self-attention of its patches, layer by layer, and that of a caption to it."""

    pixels: Tensor  # (3, H, W) of uint8
    grid: tuple[int, int]  # rows and columns of patches
    layers: tuple[SceneLayer, ...]
    title: str
    model: str
    caption: CaptionWords | None = None

    def __post_init__(self) -> None:
        if self.num_learned < 0:
            raise ValueError(f"{self.grid[0]} x {self.grid[1]} patches, but the attention is of {self._tokens} tokens")

    @property
    def num_learned(self) -> int:
        """Tokens before the patches."""
        return self._tokens - self.grid[0] * self.grid[1]

    @property
    def _tokens(self) -> int:
        if self.layers:
            return self.layers[0].attention.shape[0]
        assert self.caption is not None
        return next(iter(self.caption.layers.values())).shape[2]

    @property
    def learned(self) -> tuple[str, ...]:
        """Names of the tokens before the patches."""
        return tuple(LEARNED[i] if i < len(LEARNED) else f"register {i - 1}" for i in range(self.num_learned))

    def layer(self, name: str | int | None) -> SceneLayer:
        """Return a layer by its name or number; the last one by default."""
        if isinstance(name, str):
            found = next((layer for layer in self.layers if layer.name == name), None)
            if found is None:
                names = ", ".join(layer.name for layer in self.layers)
                raise ValueError(f"there is no layer {name!r}: choose one of {names}")
            return found
        if not self.layers:
            raise ValueError("this model has no attention between patches: its decoder attends to them directly")
        number = len(self.layers) - 1 if name is None else name
        if not 0 <= number < len(self.layers):
            raise ValueError(f"there is no layer {number}: choose 0 to {len(self.layers) - 1}")
        return self.layers[number]

    def cells(self, weights: Tensor) -> Tensor:
        """Return the weights of a token on the patches, (T,), as a grid (rows, columns)."""
        return weights[self.num_learned :].view(self.grid)

    def token(self, place: str | tuple[int, int] | None) -> int:
        """Return the number of a token: a learned one by its name, or a patch by its row and column.

        The default is the class token, or the patch in the middle where there is none.
        """
        rows, columns = self.grid
        if place is None:
            place = self.learned[0] if self.learned else (rows // 2, columns // 2)
        if isinstance(place, str):
            if place not in self.learned:
                raise ValueError(
                    f"there is no token {place!r}: choose {' or '.join(self.learned) or 'a row and column'}"
                )
            return self.learned.index(place)
        row, column = place
        if not (0 <= row < rows and 0 <= column < columns):
            raise ValueError(f"there is no patch in row {row}, column {column}: there are {rows} x {columns}")
        return self.num_learned + row * columns + column

    def rollout(self) -> Tensor:
        """Return the attention rollout (Abnar and Zuidema 2020), (T, T)."""
        self.layer(None)  # there must be one
        return rollout(self.layers)

    def distances(self) -> list[Tensor]:
        """Return the mean distance in patches that each head of each layer attends over, (heads,) for each layer."""
        rows, columns = self.grid
        y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        places = torch.stack([y.flatten(), x.flatten()], 1).float()
        apart = torch.cdist(places, places)
        found: list[Tensor] = []
        for layer in self.layers:
            means: list[Tensor] = []
            for head in range(layer.attention.num_heads):
                weights = layer.attention.head(head)[self.num_learned :, self.num_learned :]
                means.append((weights * apart).sum() / weights.sum().clamp_min(1e-9))
            found.append(torch.stack(means))
        return found


def image_page(scene: ImageScene) -> str:
    """Return a self-contained page: where each patch looks, in every layer and head, and each word of a caption."""
    heads = sum(layer.attention.num_heads for layer in scene.layers)
    joined = 1
    while (cells := math.prod(-(-side // joined) for side in scene.grid)) > 1:
        if cells <= MAX_CELLS and 2 * heads * (cells + scene.num_learned) ** 2 <= MAX_BYTES:
            break
        joined += 1
    layers: list[dict[str, Any]] = []
    for layer in scene.layers:
        weights = torch.stack(
            [_join(layer.attention.head(head), scene, joined) for head in range(layer.attention.num_heads)]
        )
        layers.append({"name": layer.name, "heads": layer.attention.num_heads, "weights": _stored(weights)})
    words: list[dict[str, Any]] = []
    for name, weights in {} if scene.caption is None else scene.caption.layers.items():
        words.append({"name": name, "heads": len(weights), "weights": _stored(weights @ _member(scene, joined))})
    grid = [-(-side // joined) for side in scene.grid]
    data = {
        "title": scene.title, "model": scene.model, "image": _data_url(scene.pixels), "grid": grid, "patches": joined,
        "learned": list(scene.learned), "layers": layers, "wordLayers": words,
        "words": [] if scene.caption is None else list(scene.caption.words),
    }  # fmt: skip
    return embedded_page("images", scene.title, data)


def _join(weights: Tensor, scene: ImageScene, size: int) -> Tensor:
    """Return weights between cells of size x size patches: the mean of what they attend with, the sum of what to."""
    if size == 1:
        return weights
    member = _member(scene, size)
    return (member / member.sum(0)).T @ weights @ member


def _member(scene: ImageScene, size: int) -> Tensor:
    """Return which cell of size x size patches each token belongs to, (T, cells); learned tokens have their own."""
    rows, columns = scene.grid
    cell_columns = -(-columns // size)
    patches = torch.arange(rows * columns)
    cells = (patches // columns // size) * cell_columns + patches % columns // size
    groups = torch.cat([torch.arange(scene.num_learned), cells + scene.num_learned])
    return F.one_hot(groups).float()


def _stored(weights: Tensor) -> str:
    """Return weights as the page reads them."""
    stored = (65535 * weights.clamp(0, 1).sqrt()).round().numpy().astype("<u2")
    return base64.b64encode(stored.tobytes()).decode()


def _data_url(pixels: Tensor) -> str:
    from clearhead.vision.image_files import to_pil

    file = io.BytesIO()
    to_pil(pixels).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def shown_pixels(pixels: Tensor, mean: Sequence[float] | None, std: Sequence[float] | None) -> Tensor:
    """Return normalized pixels (3, H, W) as uint8; without the normalization, from the least to the greatest value."""
    image = pixels.detach().float().cpu()
    if mean is not None and std is not None:
        image = image * torch.tensor(std).view(-1, 1, 1) + torch.tensor(mean).view(-1, 1, 1)
    else:
        image = (image - image.min()) / (image.max() - image.min()).clamp_min(1e-9)
    image = image.expand(3, -1, -1) if image.shape[0] == 1 else image
    return (255 * image.clamp(0, 1)).round().to(torch.uint8)
