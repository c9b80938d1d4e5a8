"""Model configurations from the `model` section of a recipe: a preset and its overrides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from clearhead.hub.families import FAMILIES
from clearhead.hub.image_features import ImageFeatures
from clearhead.layers.recurrent import NETS
from clearhead.models import PRESETS, HeadConfig, ModelConfig, TransformerConfig
from clearhead.models.heads import POOLS, HeadKind
from clearhead.models.recurrent import RecurrentConfig
from clearhead.tasks.task import did_you_mean
from clearhead.text import Tokenizer
from clearhead.vision import PatchConfig

KINDS = ("transformer", "llama", *NETS)

# Fixed settings of Marian, BERT, GPT-2 and Llama: a model is saved as one of them, and `transformers` opens it.
MARIAN = {"positions": "sinusoidal_concat", "scale_embeddings": True}
BERT = {"positions": "learned", "embedding_norm": True, "num_segments": 2}
SEGMENTS = {"roberta": 1, "bert": 2, "albert": 2, "electra": 2}
ENCODERS: dict[str, dict[str, Any]] = {
    name: {"positions": "learned", "embedding_norm": True, "num_segments": count} for name, count in SEGMENTS.items()
}
TEMPLATE = {name: "bert" if name == "electra" else name for name in ENCODERS}  # of the tokenizer that is trained
DEFAULTS: dict[str, dict[str, Any]] = {
    "albert": {"embedding_width": 128, "num_groups": 1, "activation": "gelu_tanh"},
    "electra": {"embedding_width": 128},
}
VIT: dict[str, Any] = {"positions": "none", "norm_first": True, "output_bias": True, "attention_bias": True}
CAPTIONER = ("features", "encoder_layers", "patch_size", "stem_layers")  # settings of the encoder of a captioner
GPT2 = {"positions": "learned", "norm_first": True, "activation": "gelu_tanh"}
LLAMA = {
    "positions": "rotary", "norm": "rms", "norm_first": True, "activation": "silu", "gated": True, "bias": False,
    "attention_bias": False,
}  # fmt: skip


def encoder_decoder(settings: Mapping[str, Any], vocab_size: int, max_len: int) -> ModelConfig:
    """Return an encoder-decoder that shares one embedding with the output (Vaswani et al. 2017).

    A recurrent encoder is bidirectional by default, with additive attention in the decoder (Bahdanau et al. 2015).
    """
    if settings.get("kind") == "llama":
        raise ValueError("model.kind is 'llama', which is a language model: choose transformer, gru or lstm")
    if is_recurrent(settings):
        both = _recurrent({"bidirectional": True, "attention": "additive", **settings}, vocab_size)
        encoder = replace(both, attention="none", input_feeding=False)
        decoder = replace(both, bidirectional=False)
    else:
        encoder = decoder = _transformer(settings, {**MARIAN, "vocab_size": vocab_size, "max_len": max_len})
    head = HeadConfig(kind="lm", width=decoder.width, vocab_size=vocab_size)
    return ModelConfig(encoder=encoder, decoder=decoder, head=head)


def encoder_only(
    settings: Mapping[str, Any], vocab_size: int, max_len: int, head: HeadKind, labels: tuple[str, ...]
) -> ModelConfig:
    """Return an encoder with a labelling head: BERT, or a bidirectional recurrent network."""
    stack_settings = {name: value for name, value in settings.items() if name != "pool"}
    pool = check_pool(settings.get("pool", "bidirectional_last" if is_recurrent(settings) else "first"), head)
    if settings.get("kind") == "llama":
        raise ValueError("model.kind is 'llama', which generates text: choose transformer, gru or lstm")
    if is_recurrent(settings):
        stack: TransformerConfig | RecurrentConfig = _recurrent({"bidirectional": True, **stack_settings}, vocab_size)
    else:
        stack = _transformer(stack_settings, {**BERT, "vocab_size": vocab_size, "max_len": max_len})
    config = ModelConfig(encoder=stack)
    pooler = head == "sequence" and pool == "first" and not is_recurrent(settings)
    dropout, width = 0.0 if head == "span" else stack.dropout, config.output_width
    head_config = HeadConfig(kind=head, width=width, labels=labels, pool=pool, pooler=pooler, dropout=dropout)
    return replace(config, head=head_config)


def patch_config(settings: Mapping[str, Any], image_size: int, features: ImageFeatures | None = None) -> PatchConfig:
    """Return how a new model divides images: convolutions (`stem_layers`), or patches of `patch_size` pixels.

    The features of a frozen network are read one by one.
    """
    if features is not None:
        for name in ("stem_layers", "patch_size"):
            if name in settings:
                raise ValueError(f"model.{name} is of pixels, but model.features is set: remove it")
        class_token = not is_recurrent(settings)
        return PatchConfig(image_size=features.grid, patch_size=1, num_channels=features.width, class_token=class_token)
    stem = settings.get("stem_layers", 0)
    sizes = {"patch_size": 2**stem} if stem else {"patch_size": settings.get("patch_size", 16)}
    if stem and "patch_size" in settings:
        raise ValueError("model.patch_size follows from model.stem_layers: remove one of them")
    return PatchConfig(image_size=image_size, stem_layers=stem, class_token=not stem, **sizes)


def image_encoder(settings: Mapping[str, Any], image_size: int, head: HeadKind, labels: tuple[str, ...]) -> ModelConfig:
    """Return an image encoder: ViT, or with convolutions and pooling by attention a compact Transformer (CCT)."""
    if settings.get("kind", "transformer") != "transformer":
        raise ValueError(f"model.kind is {settings['kind']!r}: images are read by a transformer")
    patches = patch_config(settings, image_size)
    own = {name: value for name, value in settings.items() if name not in ("patch_size", "stem_layers", "pool")}
    fixed = {"patches": patches, "vocab_size": 1, "max_len": 512}
    stack = _transformer({"activation": "gelu", "norm_eps": 1e-12, "dropout": 0.0, **own}, {**VIT, **fixed})
    pool = check_pool(settings.get("pool", "attention" if patches.stem_layers else "first"), head)
    if not patches.stem_layers and pool != "first":
        raise ValueError(f"model.pool is {pool!r}: a ViT reads its class token; remove it, or set model.stem_layers")
    return ModelConfig(encoder=stack, head=HeadConfig(kind=head, width=stack.width, labels=labels, pool=pool))


def captioner(settings: Mapping[str, Any], patches: PatchConfig, vocab_size: int, max_len: int) -> ModelConfig:
    """Return an image encoder with a decoder that attends to it: GPT-2, or a recurrent network (Xu et al. 2015).

    The settings are the decoder's. The encoder has the same width, and `encoder_layers` layers: with 0 of them the
    decoder attends to the patches themselves.
    """
    if settings.get("kind") == "llama":
        raise ValueError("model.kind is 'llama', which reads no images: choose transformer, gru or lstm")
    if patches.stem_layers and not is_recurrent(settings):
        raise ValueError("model.stem_layers: a Transformer decoder reads patches or features, set one of them instead")
    own = {name: v for name, v in settings.items() if name not in CAPTIONER}
    if is_recurrent(settings):
        given = {"attention": "additive", "input_feeding": True, "hidden_size": 512, **own}
        decoder: TransformerConfig | RecurrentConfig = _recurrent(given, vocab_size)
        heads, ffn_dim = max(1, decoder.width // 64), 4 * decoder.width
    else:
        decoder = _transformer(own, {**GPT2, "vocab_size": vocab_size, "max_len": max_len})
        decoder = replace(decoder, embedding_dropout=decoder.dropout)  # GPT-2's config.json has its own value
        heads, ffn_dim = decoder.num_heads, decoder.ffn_dim
    encoder = TransformerConfig(
        patches=patches, width=decoder.width, num_layers=settings.get("encoder_layers", 1), num_heads=heads,
        ffn_dim=ffn_dim, activation="gelu", norm_eps=1e-12, dropout=decoder.dropout, **VIT,
    )  # fmt: skip
    head = HeadConfig(kind="lm", width=decoder.width, vocab_size=vocab_size, bias=is_recurrent(settings))
    return ModelConfig(encoder=encoder, decoder=decoder, head=head, shared_embedding=False)


def encoder_of_words(settings: Mapping[str, Any], tokenizer: Tokenizer, max_len: int, head: HeadKind) -> ModelConfig:
    """Return an encoder for pre-training: BERT or a BERT variant, by `family`."""
    name = settings.get("family", "bert")
    if name not in ENCODERS:
        raise ValueError(f"model.family is {name!r}: {did_you_mean(str(name), ENCODERS)}")
    if is_recurrent(settings) or settings.get("kind") == "llama":
        raise ValueError(f"model.kind is {settings['kind']!r}: pre-training an encoder requires a transformer")
    own = {**DEFAULTS.get(name, {}), **{key: value for key, value in settings.items() if key != "family"}}
    given = {**ENCODERS[name], "vocab_size": tokenizer.vocab_size, "max_len": max_len}
    if name == "roberta":
        given["position_offset"] = (tokenizer.pad_id or 0) + 1  # RoBERTa's positions start after the padding id
    stack = _transformer({"activation": "gelu", "norm_eps": 1e-12, **own}, given)
    if name == "electra" and stack.embedding_width == stack.width:
        stack = replace(stack, embedding_width=None)  # no projection
    family = FAMILIES[name]
    hf_config = family.write(ModelConfig(encoder=stack), family.architecture({}))
    return replace(family.read(hf_config, family.architecture({}, head)), encoder=stack)


def generator_config(config: ModelConfig) -> ModelConfig:
    """Return ELECTRA's generator: as deep as the model, a quarter as wide, with shared embeddings."""
    stack = config.encoder
    assert isinstance(stack, TransformerConfig)
    heads = max(1, stack.num_heads // 4)
    width = max(heads, stack.width // 4 // heads * heads)
    table = stack.embedding_width or stack.width
    small = replace(
        stack, width=width, num_heads=heads, ffn_dim=max(1, stack.ffn_dim // 4),
        embedding_width=None if table == width else table,
    )  # fmt: skip
    family = FAMILIES["electra"]
    words = family.architecture({}, "lm")
    return replace(family.read(family.write(ModelConfig(encoder=small), family.architecture({})), words), encoder=small)


def check_pool(pool: Any, head: HeadKind) -> str:
    """Return a pooling by name; raises ValueError where it is unknown or does not fit the head."""
    if pool not in POOLS:
        raise ValueError(f"model.pool is {pool!r}: {did_you_mean(str(pool), POOLS)}")
    if head != "sequence" and pool not in ("first", "bidirectional_last"):
        raise ValueError(f"model.pool is {pool!r}: this task labels the parts of a text, and is not pooled; remove it")
    return pool


def decoder_only(settings: Mapping[str, Any], vocab_size: int, max_len: int) -> ModelConfig:
    """Return a decoder for language modelling: GPT-2 by default, Llama for long texts, or a recurrent network."""
    if is_recurrent(settings):
        stack = _recurrent(settings, vocab_size)
    elif settings.get("kind") == "llama":
        stack = _transformer({"dropout": 0.0, **settings}, {**LLAMA, "vocab_size": vocab_size, "max_len": max_len})
        if stack.dropout:
            raise ValueError("model.dropout: Llama's config.json has no dropout: set it to 0")
    else:
        stack = _transformer(settings, {**GPT2, "vocab_size": vocab_size, "max_len": max_len})
        if stack.embedding_dropout is None:  # GPT-2's config.json has its own value
            stack = replace(stack, embedding_dropout=stack.dropout)
    head = HeadConfig(kind="lm", width=stack.width, vocab_size=vocab_size, bias=False)
    return ModelConfig(decoder=stack, head=head)


def is_recurrent(settings: Mapping[str, Any]) -> bool:
    kind = settings.get("kind", "transformer")
    if kind not in KINDS:
        raise ValueError(f"model.kind is {kind!r}: {did_you_mean(str(kind), KINDS)}")
    return kind in NETS


def _transformer(settings: Mapping[str, Any], given: Mapping[str, Any]) -> TransformerConfig:
    size = settings.get("size", "small")
    if size not in PRESETS:
        raise ValueError(f"model.size is {size!r}: {did_you_mean(str(size), PRESETS)}")
    names = [f.name for f in fields(TransformerConfig)]
    _check(settings, [*names, "kind", "size"], given)
    preset = {name: getattr(PRESETS[size], name) for name in names}
    own = {key: value for key, value in settings.items() if key not in ("kind", "size")}
    own |= {"attention": attention_entries(own["attention"])} if "attention" in own else {}
    return TransformerConfig(**{**preset, **given, **own})


def attention_entries(value: object) -> tuple[Mapping[str, Any], ...]:
    """Return the methods that `model.attention` names: one, or a list of several with their layers."""
    entries = (value,) if isinstance(value, Mapping) else value
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ValueError(
            f"model.attention is {value!r}: write it as {{kind: bigbird, window: 3}}, or as a list of such, each with "
            "its layers: [0, 1]"
        )
    return tuple(cast(Sequence[Mapping[str, Any]], entries))


def with_token_ids(settings: Mapping[str, Any], tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Return the `model` section with ids in place of tokens: `attention.global_until` may be "[SEP]"."""
    if isinstance(settings.get("attention"), str):  # a recurrent decoder's
        return dict(settings)
    entries: list[Mapping[str, Any]] = []
    for entry in attention_entries(settings.get("attention", ())):
        token = entry.get("global_until")
        if isinstance(token, str):
            if tokenizer is None or (number := tokenizer.id(token)) is None:
                raise ValueError(f"model.attention.global_until is {token!r}, which is no token of the tokenizer")
            entry = {**entry, "global_until": number}
        entries.append(entry)
    return {**settings, **({"attention": entries} if entries else {})}


def _recurrent(settings: Mapping[str, Any], vocab_size: int) -> RecurrentConfig:
    _check(settings, [f.name for f in fields(RecurrentConfig)], {"vocab_size": vocab_size})
    sizes: dict[str, Any] = {"width": 256, "hidden_size": 256, **settings, "vocab_size": vocab_size}
    return RecurrentConfig(**sizes)


def _check(settings: Mapping[str, Any], names: Iterable[str], given: Mapping[str, Any]) -> None:
    for key in settings:
        if key in given:
            raise ValueError(f"model.{key} follows from the rest of the recipe: remove it")
        if key not in names:
            raise ValueError(f"model.{key}: {did_you_mean(key, names)}")
