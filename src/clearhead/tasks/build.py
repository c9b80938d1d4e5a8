"""From the `model` section of a recipe to a model's configuration: a preset, and what the recipe changes in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from clearhead.layers.recurrent import NETS
from clearhead.models import PRESETS, HeadConfig, ModelConfig, TransformerConfig
from clearhead.models.families import FAMILIES
from clearhead.models.heads import POOLS, Kind
from clearhead.models.recurrent import RecurrentConfig
from clearhead.tasks.faults import unknown
from clearhead.text import Tokenizer

KINDS = ("transformer", "llama", *NETS)

# What a Marian, a BERT, a GPT-2 and a Llama always are: a model is saved as one of them, and opened by `transformers`.
MARIAN = {"positions": "halves", "scaled": True}
BERT = {"positions": "learned", "embedding_norm": True, "num_segments": 2}
SEGMENTS = {"roberta": 1, "bert": 2, "albert": 2, "electra": 2}
ENCODERS: dict[str, dict[str, Any]] = {
    name: {"positions": "learned", "embedding_norm": True, "num_segments": count} for name, count in SEGMENTS.items()
}
TEMPLATE = {name: "bert" if name == "electra" else name for name in ENCODERS}  # of the tokenizer that is learnt
USUAL: dict[str, dict[str, Any]] = {
    "albert": {"embedding_width": 128, "num_groups": 1, "activation": "gelu_tanh"},
    "electra": {"embedding_width": 128},
}
GPT2 = {"positions": "learned", "norm_first": True, "activation": "gelu_tanh"}
LLAMA = {
    "positions": "rotary", "norm": "rms", "norm_first": True, "activation": "silu", "gated": True, "bias": False,
    "attention_bias": False,
}  # fmt: skip


def encoder_decoder(settings: Mapping[str, Any], vocab_size: int, max_len: int) -> ModelConfig:
    """An encoder and a decoder with one table of token vectors, which the output shares (Vaswani et al. 2017).

    A recurrent encoder reads in both directions unless told otherwise, and its decoder attends to it additively
    (Bahdanau et al. 2015).
    """
    if settings.get("kind") == "llama":
        raise ValueError("model.kind is 'llama', which is a language model: a translator is a transformer, gru or lstm")
    if is_recurrent(settings):
        told = {"bidirectional": True, "attention": "additive", **settings}
        whole = _recurrent(told, vocab_size)
        encoder = replace(whole, attention="none", feed=False)
        decoder = replace(whole, bidirectional=False)
    else:
        encoder = decoder = _transformer(settings, {**MARIAN, "vocab_size": vocab_size, "max_len": max_len})
    head = HeadConfig(kind="vocabulary", width=decoder.width, vocab_size=vocab_size)
    return ModelConfig(encoder=encoder, decoder=decoder, head=head)


def encoder_only(
    settings: Mapping[str, Any], vocab_size: int, max_len: int, head: Kind, labels: tuple[str, ...]
) -> ModelConfig:
    """An encoder with a head that labels: BERT's, or a recurrent net that reads in both directions."""
    told = {name: value for name, value in settings.items() if name != "pool"}
    pool = check_pool(settings.get("pool", "ends" if is_recurrent(settings) else "first"), head)
    if settings.get("kind") == "llama":
        raise ValueError("model.kind is 'llama', which writes text: to label it, take a transformer, gru or lstm")
    if is_recurrent(settings):
        stack: TransformerConfig | RecurrentConfig = _recurrent({"bidirectional": True, **told}, vocab_size)
    else:
        stack = _transformer(told, {**BERT, "vocab_size": vocab_size, "max_len": max_len})
    config = ModelConfig(encoder=stack)
    made = HeadConfig(
        kind=head,
        width=config.output_width,
        labels=labels,
        pool=pool,
        pooler=head == "sequence" and pool == "first" and not is_recurrent(settings),
        dropout=0.0 if head == "span" else stack.dropout,
    )
    return replace(config, head=made)


def encoder_of_words(settings: Mapping[str, Any], tokenizer: Tokenizer, max_len: int, head: Kind) -> ModelConfig:
    """An encoder that is pre-trained on words: a BERT, or one of its sons, by `family`."""
    name = settings.get("family", "bert")
    if name not in ENCODERS:
        raise ValueError(f"model.family is {name!r}: {unknown(str(name), ENCODERS)}")
    if is_recurrent(settings) or settings.get("kind") == "llama":
        raise ValueError(f"model.kind is {settings['kind']!r}: hidden words are guessed by a transformer")
    told = {**USUAL.get(name, {}), **{key: value for key, value in settings.items() if key != "family"}}
    given = {**ENCODERS[name], "vocab_size": tokenizer.vocab_size, "max_len": max_len}
    if name == "roberta":
        given["position_offset"] = (tokenizer.pad_id or 0) + 1  # its positions begin after its padding
    stack = _transformer({"activation": "gelu", "norm_eps": 1e-12, **told}, given)
    if name == "electra" and stack.embedding_width == stack.width:
        stack = replace(stack, embedding_width=None)  # nothing is widened
    family = FAMILIES[name]
    made = family.read(family.write(ModelConfig(encoder=stack), family.architecture({})), family.architecture({}, head))
    return replace(made, encoder=stack)


def generator_of(config: ModelConfig) -> ModelConfig:
    """ELECTRA's generator: as deep as the model, a quarter as wide, with the same tables of tokens."""
    stack = config.encoder
    assert isinstance(stack, TransformerConfig)
    heads = max(1, stack.num_heads // 4)
    width = max(heads, stack.width // 4 // heads * heads)
    table = stack.embedding_width or stack.width
    small = replace(
        stack, width=width, num_heads=heads, hidden=max(1, stack.hidden // 4),
        embedding_width=None if table == width else table,
    )  # fmt: skip
    family = FAMILIES["electra"]
    words = family.architecture({}, "vocabulary")
    return replace(family.read(family.write(ModelConfig(encoder=small), family.architecture({})), words), encoder=small)


def check_pool(pool: Any, head: Kind) -> str:
    """A pooling by name, for a head that labels whole texts."""
    if pool not in POOLS:
        raise ValueError(f"model.pool is {pool!r}: {unknown(str(pool), POOLS)}")
    if head != "sequence" and pool not in ("first", "ends"):
        raise ValueError(f"model.pool is {pool!r}: it makes one vector of a text, and this task labels its parts")
    return pool


def decoder_only(settings: Mapping[str, Any], vocab_size: int, max_len: int) -> ModelConfig:
    """A decoder that predicts the next token: GPT-2's by default, Llama's for long texts, or a recurrent net."""
    if is_recurrent(settings):
        stack = _recurrent(settings, vocab_size)
    elif settings.get("kind") == "llama":
        told = {"dropout": 0.0, **settings}
        stack = _transformer(told, {**LLAMA, "vocab_size": vocab_size, "max_len": max_len})
        if stack.dropout:
            raise ValueError("model.dropout: a Llama's folder has no place for it: set it to 0")
    else:
        stack = _transformer(settings, {**GPT2, "vocab_size": vocab_size, "max_len": max_len})
        if stack.embedding_dropout is None:  # which GPT-2 writes down for itself
            stack = replace(stack, embedding_dropout=stack.dropout)
    head = HeadConfig(kind="vocabulary", width=stack.width, vocab_size=vocab_size, bias=False)
    return ModelConfig(decoder=stack, head=head)


def is_recurrent(settings: Mapping[str, Any]) -> bool:
    """Do these settings ask for a recurrent net?"""
    kind = settings.get("kind", "transformer")
    if kind not in KINDS:
        raise ValueError(f"model.kind is {kind!r}: {unknown(str(kind), KINDS)}")
    return kind in NETS


def _transformer(settings: Mapping[str, Any], given: Mapping[str, Any]) -> TransformerConfig:
    size = settings.get("size", "small")
    if size not in PRESETS:
        raise ValueError(f"model.size is {size!r}: {unknown(str(size), PRESETS)}")
    names = [f.name for f in fields(TransformerConfig)]
    _check(settings, [*names, "kind", "size"], given)
    preset = {name: getattr(PRESETS[size], name) for name in names}
    own = {key: value for key, value in settings.items() if key not in ("kind", "size")}
    return TransformerConfig(**{**preset, **given, **own})


def _recurrent(settings: Mapping[str, Any], vocab_size: int) -> RecurrentConfig:
    _check(settings, [f.name for f in fields(RecurrentConfig)], {"vocab_size": vocab_size})
    sizes: dict[str, Any] = {"width": 256, "hidden": 256, **settings, "vocab_size": vocab_size}
    return RecurrentConfig(**sizes)


def _check(settings: Mapping[str, Any], names: Iterable[str], given: Mapping[str, Any]) -> None:
    for key in settings:
        if key in given:
            raise ValueError(f"model.{key} follows from the rest of the recipe: take it out")
        if key not in names:
            raise ValueError(f"model.{key}: {unknown(key, names)}")
