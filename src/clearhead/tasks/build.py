"""From the `model` section of a recipe to a model's configuration: a preset, and what the recipe changes in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from clearhead.models import PRESETS, HeadConfig, ModelConfig, TransformerConfig
from clearhead.tasks.faults import unknown

KINDS = ("transformer",)
ADDED = {"kind", "size"}

# What `transformers` expects of a Marian and of a GPT-2, where the settings leave it open.
MARIAN = {"positions": "halves", "scaled": True}
GPT2 = {"positions": "learned", "norm_first": True, "activation": "gelu_tanh"}


def encoder_decoder(settings: Mapping[str, Any], vocab_size: int, max_len: int) -> ModelConfig:
    """An encoder and a decoder with one table of token vectors, which the output shares (Vaswani et al. 2017)."""
    stack = _transformer(settings, {**MARIAN, "vocab_size": vocab_size, "max_len": max_len})
    head = HeadConfig(kind="vocabulary", width=stack.width, vocab_size=vocab_size)
    return ModelConfig(encoder=stack, decoder=stack, head=head)


def decoder_only(settings: Mapping[str, Any], vocab_size: int, max_len: int) -> ModelConfig:
    """A decoder that predicts the next token."""
    stack = _transformer(settings, {**GPT2, "vocab_size": vocab_size, "max_len": max_len})
    head = HeadConfig(kind="vocabulary", width=stack.width, vocab_size=vocab_size, bias=False)
    return ModelConfig(decoder=stack, head=head)


def _transformer(settings: Mapping[str, Any], given: Mapping[str, Any]) -> TransformerConfig:
    size = settings.get("size", "small")
    if size not in PRESETS:
        raise ValueError(f"model.size is {size!r}: {unknown(str(size), PRESETS)}")
    names = [f.name for f in fields(TransformerConfig)]
    for key in settings:
        if key not in {*names, *ADDED}:
            raise ValueError(f"model.{key}: {unknown(key, [*names, *ADDED])}")
        if key in given:
            raise ValueError(f"model.{key} follows from the rest of the recipe: take it out")
    preset = {name: getattr(PRESETS[size], name) for name in names}
    own = {key: value for key, value in settings.items() if key not in ADDED}
    return TransformerConfig(**{**preset, **given, **own})
