"""Methods: attention that reads fewer pairs than exact attention, or approximates it, exchangeable in a model."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor, nn

from clearhead.attention.attend import dispatch
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import KERNELS
from clearhead.attention.masks import Mask
from clearhead.attention.weights import Which


class AttentionMethod(nn.Module):
    """Computes the attention of a layer in its own way, with the layer's masks and layouts.

    The options of a subclass are the arguments of its constructor, each stored under its own name.
    """

    kind: ClassVar[str]
    reads_states: bool = False  # needs `AttentionInputs.states`
    shares_query_key: bool = False  # keys are the queries: they have one projection
    global_until: int | None = None  # a token id: the tokens before its first one are `AttentionInputs.global_tokens`

    def forward(self, inputs: AttentionInputs, dropout: float = 0.0) -> Tensor:
        """The output, (N, H, V)."""
        raise TypeError(f"{type(self).__name__} defines no `forward`: implement it")

    def rows(self, inputs: AttentionInputs, sequence: int, head: int, queries: Which) -> Tensor:
        """The factors by which some queries (counted within the sequence) add up the values, (len, S)."""
        raise TypeError(f"{type(self).__name__} defines no `rows`: implement it")

    def exact_inputs(self, inputs: AttentionInputs) -> AttentionInputs | None:
        """Inputs whose exact attention is what this method computes; None if it is no softmax over keys."""
        return None

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the constructor, as in a recipe."""
        names = inspect.signature(type(self)).parameters
        return {"kind": self.kind, **{name: getattr(self, name) for name in names}}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items() if name != "kind")


class SparseMethod(AttentionMethod):
    """Exact attention over the pairs that a mask allows besides the layer's own mask."""

    def mask(self, inputs: AttentionInputs) -> Mask:
        """The mask for these inputs."""
        raise TypeError(f"{type(self).__name__} defines no `mask`: implement it")

    def exact_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
        return replace(inputs, mask=inputs.mask & self.mask(inputs))

    def forward(self, inputs: AttentionInputs, dropout: float = 0.0) -> Tensor:
        return dispatch(self.exact_inputs(inputs), dropout)

    def rows(self, inputs: AttentionInputs, sequence: int, head: int, queries: Which) -> Tensor:
        return KERNELS["reference"].rows(self.exact_inputs(inputs), sequence, head, queries)


def at_least(least: int, **values: int) -> None:
    """Raise a ValueError for the first value that is not a whole number of at least `least`."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is {value!r}: it must be a whole number, {least} or more")
