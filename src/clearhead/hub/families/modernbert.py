"""ModernBERT (Warner et al. 2024): an encoder with rotary positions, gated layers, and two local layers in three."""

from typing import Any

from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, Raw, activation
from clearhead.hub.tensor_map import joined

LAYER = {
    "layers.{}.attn_norm": "encoder.blocks.{}.attention_norm",
    "layers.{}.attn.Wqkv": joined(
        "encoder.blocks.{}.attention.query", "encoder.blocks.{}.attention.key", "encoder.blocks.{}.attention.value"
    ),
    "layers.{}.attn.Wo": "encoder.blocks.{}.attention.output",
    "layers.{}.mlp_norm": "encoder.blocks.{}.feedforward_norm",
    "layers.{}.mlp.Wi": joined("encoder.blocks.{}.feedforward.gate", "encoder.blocks.{}.feedforward.up"),
    "layers.{}.mlp.Wo": "encoder.blocks.{}.feedforward.down",
}
KINDS = {True: "sliding_attention", False: "full_attention"}


def _local(raw: Raw) -> tuple[int, ...]:
    count, every = raw.get("num_hidden_layers", 22), raw.get("global_attn_every_n_layers", 3)
    kinds = raw.get("layer_types") or [KINDS[bool(i % every)] for i in range(min(count, 10_000))]
    return tuple(i for i, kind in enumerate(kinds) if kind == KINDS[True])


def _base(kind: str, old: str, default: float) -> DerivedKey:
    def read(raw: Raw) -> float:
        new = (raw.get("rope_parameters") or {}).get(kind) or {}
        if new.get("rope_type", "default") != "default" or raw.get("rope_scaling"):
            raise ValueError(f"rotary positions of type {new.get('rope_type')!r} are not supported for ModernBERT")
        return new.get("rope_theta", raw.get(old, default))

    return DerivedKey(read, lambda v, _: {old: v})


def _window(raw: Raw) -> tuple[int, int] | None:
    half = raw.get("local_attention", 128) // 2
    return (half, half) if _local(raw) else None


def _kinds(layers: tuple[int, ...], raw: Raw) -> dict[str, Any]:
    return {"layer_types": [KINDS[i in layers] for i in range(raw["num_hidden_layers"])]}


HEAD = {"head.dense": "inner.dense", "head.norm": "inner.norm"}
INNER = {
    "inner": lambda s: s.width,
    "inner_bias": ConfigKey("classifier_bias", False),
    "activation": activation("classifier_activation", "gelu"),
    "norm_eps": lambda s: s.norm_eps,
    "norm_bias": lambda s: s.norm_bias,
}
POOL = ConfigKey(
    "classifier_pooling", "first", lambda v: "first" if v == "cls" else v, lambda v: "cls" if v == "first" else v
)
DROPOUT = {"dropout": ConfigKey("classifier_dropout", 0.0)}

MODERNBERT = Family(
    model_type="modernbert",
    title="ModernBERT",
    prefix="model",
    stacks=("encoder",),
    config={
        "vocab_size": ConfigKey("vocab_size", 50368),
        "width": ConfigKey("hidden_size", 768),
        "num_layers": ConfigKey("num_hidden_layers", 22),
        "num_heads": ConfigKey("num_attention_heads", 12),
        "ffn_dim": ConfigKey("intermediate_size", 1152),
        "max_len": ConfigKey("max_position_embeddings", 8192),
        "activation": activation("hidden_activation", "gelu"),
        "norm_eps": ConfigKey("norm_eps", 1e-5),
        "norm_bias": ConfigKey("norm_bias", False),
        "attention_bias": ConfigKey("attention_bias", False),
        "bias": ConfigKey("mlp_bias", False),
        "local_layers": DerivedKey(_local, _kinds),
        "window": DerivedKey(_window, lambda v, _: {} if v is None else {"local_attention": 2 * v[0]}),
        "rotary_base": _base("full_attention", "global_rope_theta", 160_000.0),
        "local_rotary_base": _base("sliding_attention", "local_rope_theta", 10_000.0),
        "embedding_dropout": ConfigKey("embedding_dropout", 0.0),
        "attention_dropout": ConfigKey("attention_dropout", 0.0),
        "hidden_dropout": ConfigKey("mlp_dropout", 0.0),
    },
    constants={
        "positions": "rotary",
        "embedding_norm": True,
        "norm_first": True,
        "norm_of_embedding": True,
        "gated": True,
        "dropout": 0.0,
    },
    weights={
        "embeddings.tok_embeddings": "encoder.embedding.tokens",
        "embeddings.norm": "encoder.embedding.norm",
        **LAYER,
        "final_norm": "encoder.norm",
    },
    heads={
        "ModernBertModel": HeadMapping(None, prefixed=False),
        "ModernBertForMaskedLM": HeadMapping(
            "lm", {**HEAD, "decoder": "output"}, {**INNER, "bias": ConfigKey("decoder_bias", True)}
        ),
        "ModernBertForSequenceClassification": HeadMapping(
            "sequence", {**HEAD, "classifier": "output"}, {**INNER, **DROPOUT, "pool": POOL}
        ),
        "ModernBertForTokenClassification": HeadMapping(
            "token", {**HEAD, "classifier": "output"}, {**INNER, **DROPOUT}
        ),
        "ModernBertForQuestionAnswering": HeadMapping(
            "span", {**HEAD, "classifier": "output"}, {**INNER, **DROPOUT, "labels": ("start", "end")}
        ),
    },
    ignored=(r".*inv_freq",),
)
