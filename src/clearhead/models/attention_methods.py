"""Attention methods in a model: exact attention replaced in a trained model, layer by layer."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from clearhead.efficient import AttentionMethod
from clearhead.layers import Block
from clearhead.models.model import Model, ModelConfig, shared_copy
from clearhead.models.transformer import TransformerStack
from clearhead.models.transformer_config import TransformerConfig, method_for, methods_by_layer

StackName = Literal["encoder", "decoder"]


def with_attention(
    model: Model,
    config: ModelConfig,
    method: AttentionMethod | Mapping[str, Any] | None,
    layers: Iterable[int] | None = None,
    stack: StackName | None = None,
) -> tuple[Model, ModelConfig]:
    """A model that shares all weights with this one, and whose self-attention is computed by another method.

    `layers` are numbers (default: all) of the encoder, or of the decoder where there is no encoder; `stack` names the
    other. The method may be the options of one, as in a recipe; None brings exact attention back. Each layer gets its
    own copy.
    """
    name: StackName = stack or ("encoder" if config.encoder is not None else "decoder")
    settings = getattr(config, name)
    if not isinstance(settings, TransformerConfig):
        raise ValueError(f"the {name} of this model is no Transformer, so its attention has no other method")
    if isinstance(method, Mapping):
        method = method_for(settings, method)
    selected = list(range(settings.num_layers) if layers is None else layers)
    if bad := [layer for layer in selected if layer not in range(settings.num_layers)]:
        raise ValueError(f"there is no layer {bad[0]}: the {name} has layers 0 to {settings.num_layers - 1}")
    if settings.num_groups is not None and len(selected) < settings.num_layers:
        raise ValueError("the layers of this model share their weights, so they share a method: leave `layers` out")
    methods = methods_by_layer(settings)
    for layer in selected:
        methods[layer] = None if method is None else method.options
    changed = shared_copy(model)
    blocks = getattr(changed, name)
    assert isinstance(blocks, TransformerStack)
    for layer in selected:
        block = blocks.blocks[layer]
        assert isinstance(block, Block)
        if method is not None and method.shares_query_key and block.attention.key is not block.attention.query:
            raise ValueError(
                f"{method.kind} reads keys that are the queries too, but this model has projections for both: choose "
                "another method, such as lsh"
            )
        block.attention.core.method = copy.deepcopy(method)
    return changed, replace(config, **{name: replace(settings, attention=method_entries(methods))})


def method_entries(methods: Sequence[dict[str, Any] | None]) -> tuple[dict[str, Any], ...]:
    """The methods of all layers as entries of a configuration; one method of all layers needs no list of them."""
    first = next(iter(methods), None)
    if first is not None and all(method == first for method in methods):
        return (first,)
    return tuple(entries_with_layers(methods))


def entries_with_layers(methods: Sequence[dict[str, Any] | None]) -> list[dict[str, Any]]:
    """Entries of a configuration from the method of each layer, None for exact: each different one with its layers."""
    different = [m for i, m in enumerate(methods) if m is not None and m not in methods[:i]]
    return [{**m, "layers": [i for i, other in enumerate(methods) if other == m]} for m in different]
