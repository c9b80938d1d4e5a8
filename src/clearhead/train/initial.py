"""First weights: Glorot's for matrices, so that signals keep their size through a stack of any depth."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def initialise(model: M) -> M:
    """Matrices of linear layers by Glorot and Bengio (2010), their biases 0; embeddings are as they were built."""
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if id(module.weight) not in embeddings:
                nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:  # pyright: ignore[reportUnnecessaryComparison]
                nn.init.zeros_(module.bias)
    return model
