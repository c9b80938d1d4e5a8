"""Attention error: what a method changes in a trained model, measured on the model's own queries, keys and values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from clearhead.attention import AttentionMap, look
from clearhead.attention.attend import dispatch
from clearhead.efficient import AttentionMethod
from clearhead.models import Model, TransformerStack
from clearhead.text import TokenBatch

SHARE = 8  # by default, a query reads 1 / SHARE of the keys


def few_keys(length: int) -> int:
    """The number of keys that a query reads by default in a text of this length."""
    return max(8, length // SHARE)


def candidates(length: int, keys: int, *, causal: bool) -> dict[str, dict[str, Any]]:
    """Methods with options by which a query of a text of this length reads about so many keys."""
    block = max(1, keys // 8)
    both: dict[str, dict[str, Any]] = {
        "bigbird": {"window": 3, "global_blocks": 2, "random": 3, "block": block},
        "longformer": {"window": keys, "global_tokens": 1},
        "selected_blocks": {"blocks": 8, "block": block},
        "lsh": {"rounds": 4, "buckets": 64, "window": max(1, keys // 4), "local": max(1, keys // 8)},
        "performer": {"features": max(keys, 16)},
    }
    only = {"sink_window": {"window": keys, "sinks": 4}} if causal else {
        "linformer": {"rank": keys, "max_len": length}, "nystrom": {"landmarks": keys}
    }  # fmt: skip
    return {kind: {"kind": kind, **options} for kind, options in {**both, **only}.items()}


def stack_states(model: Model, tokens: TokenBatch) -> Tensor:
    """The hidden states of the encoder, or of the decoder where there is no encoder, (N, D)."""
    stack = model.eval().encoder if model.encoder is not None else model.decoder
    assert isinstance(stack, TransformerStack)
    return stack(tokens.ids, tokens.layout)


@torch.no_grad()
def exact_run(model: Model, tokens: TokenBatch) -> tuple[Tensor, list[AttentionMap]]:
    """The hidden states (N, D), and the self-attention of each layer."""
    with look(model, kinds=("self",)) as seen:
        states = stack_states(model, tokens)
    return states, list(seen.values())


@torch.no_grad()
def states_error(model: Model, tokens: TokenBatch, exact: Tensor) -> float:
    """The norm of the difference to the exact hidden states, divided by their norm."""
    return float((stack_states(model, tokens) - exact).norm() / exact.norm())


@torch.no_grad()
def method_errors(method: AttentionMethod, exact: AttentionMap) -> tuple[tuple[float, ...], ...]:
    """The errors of the output and of the weights, and the exact weight on keys that are not read, of each head."""
    out, expected = method(exact.inputs), dispatch(exact.inputs)
    output = (out - expected).norm(dim=(0, 2)) / expected.norm(dim=(0, 2))
    weights, missed = [], []
    found = AttentionMap(exact.inputs, method=method)
    for head in range(exact.num_heads):
        wanted, used = exact.head(head), found.head(head)
        weights.append(float((used - wanted).abs().sum(1).mean() / 2))
        missed.append(float(wanted.masked_fill(used != 0, 0.0).sum(1).mean()))
    return tuple(output.tolist()), tuple(weights), tuple(missed)
