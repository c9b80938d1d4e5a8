"""Scene: inputs with their token labels and attention layers; the data behind every page and figure.

The page reads a scene as JSON; `web/src/scene.ts` declares the same format.
"""

import base64
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from clearhead.viz.sources import AttentionSource
from clearhead.viz.token_labels import TokenLabels

FIXED_POINT_ONE = 2**24 - 1  # the weight 1 as 24-bit fixed point
MAX_VECTOR_VALUES = 2**16  # query, key and value numbers per input in a page; one layer may exceed it


@dataclass(frozen=True)
class SceneAxis:
    """The tokens along one side of an attention map."""

    name: str
    names: TokenLabels


@dataclass(frozen=True, eq=False)
class SceneLayer:
    """One attention layer over an input, from the tokens of one axis to those of another."""

    name: str
    kind: Literal["self", "cross"]
    queries: int  # index of the query axis
    keys: int  # index of the key axis
    attention: AttentionSource

    def mean(self) -> Tensor:
        """Return the mean of all heads, (T, S)."""
        total = self.attention.head(0)
        for head in range(1, self.attention.num_heads):
            total = total + self.attention.head(head)
        return total / self.attention.num_heads


def rollout(layers: Sequence[SceneLayer]) -> Tensor:
    """Return the attention rollout of self-attention layers (Abnar and Zuidema 2020), (T, T).

    Each layer counts half as the residual connection and half as the mean of its heads.
    """
    flow = torch.eye(layers[0].attention.shape[0])
    for layer in layers:
        flow = 0.5 * flow + 0.5 * layer.mean() @ flow
    return flow


@dataclass(frozen=True)
class SceneAnswer:
    """The model's prediction with a score; `metric` names the score."""

    text: str
    score: float | None = None
    metric: str = ""


@dataclass(frozen=True, eq=False)
class SceneInput:
    """One text or text pair that the model received."""

    label: str
    axes: tuple[SceneAxis, ...]
    layers: tuple[SceneLayer, ...]
    answer: SceneAnswer | None = None

    def __post_init__(self) -> None:
        for layer in self.layers:
            expected = tuple(len(self.axes[i].names) for i in (layer.queries, layer.keys))
            if layer.attention.shape != expected:
                raise ValueError(
                    f"{layer.name} is {layer.attention.shape[0]} x {layer.attention.shape[1]}, but its axes have "
                    f"{expected[0]} and {expected[1]} labels: give the tokens of the model's last input"
                )

    def layer(self, name: str | int) -> SceneLayer:
        """The layer of this name or number."""
        if isinstance(name, int):
            return self.layers[name]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(f"there is no layer {name!r}; there are {', '.join(layer.name for layer in self.layers)}")


@dataclass(frozen=True, eq=False)
class Scene:
    """The data that one page or figure shows."""

    inputs: tuple[SceneInput, ...]
    title: str = ""
    model: str = ""
    # (input index, layer name -> heads) -> prediction with these heads ablated
    ablated: Callable[[int, dict[str, list[int]]], SceneAnswer] | None = field(default=None, repr=False)

    @property
    def longest(self) -> int:
        """The number of tokens of the longest axis."""
        return max((len(axis.names) for given in self.inputs for axis in given.axes), default=0)


def to_dict(scene: Scene, *, live: bool) -> dict[str, Any]:
    """Return the scene as the page reads it; unless live, with all weights and the vectors of the last layers."""
    sequences = [_input(given, live) for given in scene.inputs]
    return {"version": 1, "title": scene.title, "model": scene.model, "live": live, "sequences": sequences}


def to_json(description: dict[str, Any]) -> str:
    """Return JSON that is safe inside a script element: it contains no `<`."""
    text = json.dumps(description, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _input(given: SceneInput, live: bool) -> dict[str, Any]:
    answer, with_vectors = given.answer, set[str]() if live else _layers_with_vectors(given)
    return {
        "label": given.label,
        "axes": [_axis(axis) for axis in given.axes],
        "maps": [_layer(layer, live, layer.name in with_vectors) for layer in given.layers],
        "answer": answer and {"text": answer.text, "score": answer.score, "metric": answer.metric},
    }


def _layers_with_vectors(given: SceneInput) -> set[str]:
    """Return the names of the last layers whose vectors fit into the page."""
    remaining, names = MAX_VECTOR_VALUES, set[str]()
    for layer in reversed(given.layers):
        vectors = layer.attention.vectors(0)
        if vectors is None:
            continue
        size = layer.attention.num_heads * sum(x.numel() for x in vectors[:3])
        if names and size > remaining:
            break
        remaining -= size
        names.add(layer.name)
    return names


def _axis(axis: SceneAxis) -> dict[str, Any]:
    return {
        "name": axis.name,
        "words": [word.encode("utf-8", "replace").decode() for word in axis.names.words],  # no lone surrogates
        "special": axis.names.special,
        "joined": axis.names.joined,
    }


def _layer(layer: SceneLayer, live: bool, with_vectors: bool) -> dict[str, Any]:
    record, stats = layer.attention, None if live else layer.attention.head_stats()
    vectors = record.vectors(0)
    heads = range(record.num_heads)
    description: dict[str, Any] = {
        "name": layer.name,
        "kind": layer.kind,
        "queries": layer.queries,
        "keys": layer.keys,
        "heads": record.num_heads,
        "entropy": stats and stats[0],
        "distance": stats and stats[1],
        "dims": None if vectors is None else [vectors.queries.shape[1], vectors.values.shape[1]],
        "scale": None if vectors is None else vectors.scale,
    }
    if live:
        return description
    norms = [norm for h in heads if (norm := record.norms(h)) is not None]
    return description | {
        "weights": pack_weights(torch.stack([record.head(h) for h in heads])),
        "norms": None if len(norms) < len(heads) else pack_floats(norms),
        "vectors": None if vectors is None or not with_vectors else _pack_vectors(record),
    }


def _pack_vectors(record: AttentionSource) -> str:
    heads = [vectors for h in range(record.num_heads) if (vectors := record.vectors(h)) is not None]
    return pack_floats([getattr(vectors, name) for name in ("queries", "keys", "values") for vectors in heads])


def pack_weights(weights: torch.Tensor) -> str:
    """Return weights in [0, 1] as packed 24-bit fixed point, highest bytes first; the error is at most 3e-8."""
    fixed = np.rint(weights.double().clamp(0, 1).numpy() * FIXED_POINT_ONE).astype("<u4").reshape(-1)
    planes = fixed.view(np.uint8).reshape(-1, 4)[:, 2::-1].T  # (3, n): high, middle, low
    return _pack(np.ascontiguousarray(planes).tobytes())


def pack_floats(tensors: Sequence[torch.Tensor]) -> str:
    return _pack(np.concatenate([t.float().reshape(-1).numpy() for t in tensors]).astype("<f4").tobytes())


def _pack(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()
