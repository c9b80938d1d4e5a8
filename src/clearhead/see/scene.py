"""Scene: inputs, each with the names of its tokens and the attentions that ran over them; what every picture is of.

The page reads a scene as JSON; `web/src/scene.ts` says the same in its own words.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from clearhead.see.records import Record
from clearhead.see.tokens import Names

FULL = 2**24 - 1  # the weight 1 as 24-bit fixed point
STEPS = 2**16  # numbers of queries, keys and values that a page carries of an input, beyond those of one layer


@dataclass(frozen=True)
class Picture:
    """A picture that some tokens are patches of."""

    png: bytes
    rows: int
    columns: int
    first: int = 0  # the token of its first patch


@dataclass(frozen=True)
class Axis:
    """The tokens along one side of a map."""

    name: str
    names: Names
    picture: Picture | None = None


@dataclass(frozen=True, eq=False)
class Layer:
    """One attention over an input: from the tokens of one axis to those of another."""

    name: str
    kind: Literal["self", "cross"]
    queries: int  # axes, by number
    keys: int
    record: Record


@dataclass(frozen=True)
class Answer:
    """What the model said, and what that is worth."""

    text: str
    score: float | None = None
    what: str = ""


@dataclass(frozen=True, eq=False)
class Input:
    """One text, pair or picture that the model read."""

    label: str
    axes: tuple[Axis, ...]
    layers: tuple[Layer, ...]
    answer: Answer | None = None

    def __post_init__(self) -> None:
        for layer in self.layers:
            due = tuple(len(self.axes[i].names) for i in (layer.queries, layer.keys))
            if layer.record.shape != due:
                raise ValueError(
                    f"{layer.name} is {layer.record.shape[0]} x {layer.record.shape[1]}, but its axes have "
                    f"{due[0]} and {due[1]} names: give the tokens of what the model read last"
                )

    def layer(self, name: str | int) -> Layer:
        """A layer by its name or number."""
        if isinstance(name, int):
            return self.layers[name]
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise ValueError(f"there is no layer {name!r}; there are {', '.join(layer.name for layer in self.layers)}")


@dataclass(frozen=True, eq=False)
class Scene:
    """All that one page, figure or answer shows."""

    inputs: tuple[Input, ...]
    title: str = ""
    model: str = ""
    without: Callable[[int, dict[str, list[int]]], Answer] | None = field(default=None, repr=False)  # heads off

    @property
    def longest(self) -> int:
        """The most tokens along a side."""
        return max((len(axis.names) for each in self.inputs for axis in each.axes), default=0)


def described(scene: Scene, *, live: bool) -> dict[str, Any]:
    """The scene as the page reads it; unless live, with all weights inside, and the vectors of the last layers."""
    return {
        "version": 1,
        "title": scene.title,
        "model": scene.model,
        "live": live,
        "sequences": [_input(each, live) for each in scene.inputs],
    }


def to_json(description: dict[str, Any]) -> str:
    """JSON that may stand inside a script element: no tag can begin in it."""
    text = json.dumps(description, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _input(given: Input, live: bool) -> dict[str, Any]:
    answer, chosen = given.answer, set[str]() if live else _affordable(given)
    return {
        "label": given.label,
        "axes": [_axis(axis) for axis in given.axes],
        "maps": [_layer(layer, live, layer.name in chosen) for layer in given.layers],
        "answer": answer and {"text": answer.text, "score": answer.score, "what": answer.what},
    }


def _affordable(given: Input) -> set[str]:
    """The last layers whose vectors there is room for."""
    room, chosen = STEPS, set[str]()
    for layer in reversed(given.layers):
        vectors = layer.record.vectors(0)
        if vectors is None:
            continue
        size = layer.record.num_heads * sum(x.numel() for x in vectors[:3])
        if chosen and size > room:
            break
        room -= size
        chosen.add(layer.name)
    return chosen


def _axis(axis: Axis) -> dict[str, Any]:
    picture = axis.picture
    return {
        "name": axis.name,
        "words": [word.encode("utf-8", "replace").decode() for word in axis.names.words],  # no lone surrogates
        "special": axis.names.special,
        "joined": axis.names.joined,
        "picture": picture
        and {
            "data": "data:image/png;base64," + base64.b64encode(picture.png).decode(),
            "rows": picture.rows,
            "columns": picture.columns,
            "first": picture.first,
        },
    }


def _layer(layer: Layer, live: bool, steps: bool) -> dict[str, Any]:
    record, facts = layer.record, None if live else layer.record.facts()
    vectors = record.vectors(0)
    heads = range(record.num_heads)
    described: dict[str, Any] = {
        "name": layer.name,
        "kind": layer.kind,
        "queries": layer.queries,
        "keys": layer.keys,
        "heads": record.num_heads,
        "entropy": facts and facts[0],
        "distance": facts and facts[1],
        "dims": None if vectors is None else [vectors.queries.shape[1], vectors.values.shape[1]],
        "scale": None if vectors is None else vectors.scale,
    }
    if live:
        return described
    norms = [record.norms(h) for h in heads]
    return described | {
        "weights": pack_weights(torch.stack([record.head(h) for h in heads])),
        "norms": None if any(n is None for n in norms) else pack_floats(norms),  # type: ignore[arg-type]
        "steps": None if vectors is None or not steps else _vectors(record),
    }


def _vectors(record: Record) -> str:
    found = [record.vectors(h) for h in range(record.num_heads)]
    known = [vectors for vectors in found if vectors is not None]
    return pack_floats([getattr(v, name) for name in ("queries", "keys", "values") for v in known])


def pack_weights(weights: torch.Tensor) -> str:
    """Weights from 0 to 1 as 24-bit fixed point, half a step of 6e-8 off at most: highest bytes first, then packed."""
    fixed = np.rint(weights.double().clamp(0, 1).numpy() * FULL).astype("<u4").reshape(-1)
    planes = fixed.view(np.uint8).reshape(-1, 4)[:, 2::-1].T  # (3, n): high, middle, low
    return _packed(np.ascontiguousarray(planes).tobytes())


def pack_floats(tensors: Sequence[torch.Tensor]) -> str:
    """Tensors one after another as float32."""
    return _packed(np.concatenate([t.float().reshape(-1).numpy() for t in tensors]).astype("<f4").tobytes())


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()
