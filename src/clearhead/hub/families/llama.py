"""Llama (Touvron et al. 2023), and Mistral, Qwen2 and Qwen3, which differ in few settings."""

from typing import Any

from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, Raw, activation
from clearhead.layers import RopeScaling

LAYER = {
    "layers.{}.input_layernorm": "decoder.blocks.{}.attention_norm",
    "layers.{}.self_attn.q_proj": "decoder.blocks.{}.attention.query",
    "layers.{}.self_attn.k_proj": "decoder.blocks.{}.attention.key",
    "layers.{}.self_attn.v_proj": "decoder.blocks.{}.attention.value",
    "layers.{}.self_attn.o_proj": "decoder.blocks.{}.attention.output",
    "layers.{}.self_attn.q_norm": "decoder.blocks.{}.attention.query_norm",
    "layers.{}.self_attn.k_norm": "decoder.blocks.{}.attention.key_norm",
    "layers.{}.post_attention_layernorm": "decoder.blocks.{}.feedforward_norm",
    "layers.{}.mlp.gate_proj": "decoder.blocks.{}.feedforward.gate",
    "layers.{}.mlp.up_proj": "decoder.blocks.{}.feedforward.up",
    "layers.{}.mlp.down_proj": "decoder.blocks.{}.feedforward.down",
}


def _rope(raw: Raw) -> dict[str, Any]:
    """Returns rotary settings, from `rope_parameters` (v5) or `rope_theta` and `rope_scaling` (v4)."""
    new = raw.get("rope_parameters") or {"rope_theta": raw.get("rope_theta"), **(raw.get("rope_scaling") or {})}
    if not isinstance(new, dict):
        raise ValueError(f"rope_parameters is {new!r}: it must be an object")
    return new


def _rope_scaling(raw: Raw) -> RopeScaling | None:
    rope = _rope(raw)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling(rope["factor"])
    if kind == "llama3":
        limits = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
        return RopeScaling(rope["factor"], *limits)
    raise ValueError(f"rotary positions of type {kind!r} are not supported: use default, linear or llama3")


def _write_rope_scaling(s: RopeScaling | None, _: Raw) -> dict[str, Any]:
    if s is None:
        return {"rope_scaling": None}
    if s.trained is None:
        return {"rope_scaling": {"rope_type": "linear", "factor": s.factor}}
    limits = {"low_freq_factor": s.low, "high_freq_factor": s.high, "original_max_position_embeddings": s.trained}
    return {"rope_scaling": {"rope_type": "llama3", "factor": s.factor, **limits}}


def _family(
    model_type: str, title: str, name: str, vocab_size: int, max_len: int, **settings: ConfigKey | DerivedKey | bool
) -> Family:
    return Family(
        model_type=model_type,
        title=title,
        prefix="model",
        stacks=("decoder",),
        config={
            "vocab_size": ConfigKey("vocab_size", vocab_size),
            "width": ConfigKey("hidden_size", 4096),
            "num_layers": ConfigKey("num_hidden_layers", 32),
            "num_heads": ConfigKey("num_attention_heads", 32),
            "num_kv_heads": ConfigKey("num_key_value_heads"),
            "head_dim": ConfigKey("head_dim"),
            "ffn_dim": ConfigKey("intermediate_size", 11008),
            "max_len": ConfigKey("max_position_embeddings", max_len),
            "activation": activation("hidden_act", "silu"),
            "norm_eps": ConfigKey("rms_norm_eps", 1e-6),
            "rotary_base": DerivedKey(lambda c: _rope(c).get("rope_theta") or 10_000.0, lambda v, _: {"rope_theta": v}),
            "rope_scaling": DerivedKey(_rope_scaling, _write_rope_scaling),
            "attention_dropout": ConfigKey("attention_dropout", 0.0),
            **{k: v for k, v in settings.items() if not isinstance(v, bool)},
        },
        constants={
            "positions": "rotary",
            "norm": "rms",
            "norm_first": True,
            "gated": True,
            "bias": False,
            "dropout": 0.0,
            **{k: v for k, v in settings.items() if isinstance(v, bool)},
        },
        weights={"embed_tokens": "decoder.embedding.tokens", **LAYER, "norm": "decoder.norm"},
        heads={
            f"{name}Model": HeadMapping(None, prefixed=False),
            f"{name}ForCausalLM": HeadMapping("lm", {"lm_head": "output"}, {"bias": False}),
            f"{name}ForSequenceClassification": HeadMapping(
                "sequence", {"score": "output"}, {"bias": False, "pool": "last"}
            ),
            f"{name}ForTokenClassification": HeadMapping(
                "token", {"score": "output"}, {"dropout": ConfigKey(("classifier_dropout", "hidden_dropout"), 0.1)}
            ),
        },
        tied=False,
        ignored=(r".*inv_freq",),
    )


def _window(raw: Raw) -> tuple[int, int] | None:
    return (raw["sliding_window"] - 1, 0) if _local(raw) else None


def _local(raw: Raw) -> tuple[int, ...]:
    """Returns the sliding-window layers: by `layer_types`, else all (Mistral) or from `max_window_layers` on (Qwen)."""
    count = min(raw.get("num_hidden_layers", 32), 10_000)
    qwen = raw.get("model_type", "mistral") != "mistral"
    if not raw.get("sliding_window") or (qwen and not raw.get("use_sliding_window", False)):
        return ()
    if raw.get("layer_types"):
        return tuple(i for i, kind in enumerate(raw["layer_types"]) if kind == "sliding_attention")
    return tuple(range(raw.get("max_window_layers", 28) if qwen else 0, count))


def _write_window(window: tuple[int, int] | None, raw: Raw) -> dict[str, Any]:
    if window is None:
        return {"sliding_window": None}
    return {"sliding_window": window[0] + 1, **({} if raw["model_type"] == "mistral" else {"use_sliding_window": True})}


def _write_local(layers: tuple[int, ...], raw: Raw) -> dict[str, Any]:
    kinds = ("full_attention", "sliding_attention")
    return {"layer_types": [kinds[i in layers] for i in range(raw["num_hidden_layers"])]}


WINDOW = {"window": DerivedKey(_window, _write_window), "local_layers": DerivedKey(_local, _write_local)}
NO_HEAD_DIM = DerivedKey(lambda c: None)

LLAMA = _family(
    "llama", "Llama", "Llama", 32000, 2048,
    attention_bias=ConfigKey("attention_bias", False), bias=ConfigKey("mlp_bias", False),
)  # fmt: skip
MISTRAL = _family("mistral", "Mistral", "Mistral", 32000, 131072, **WINDOW)
QWEN2 = _family(
    "qwen2", "Qwen2", "Qwen2", 151936, 32768, **WINDOW, head_dim=NO_HEAD_DIM, attention_bias=True, output_bias=False
)
QWEN3 = _family(
    "qwen3", "Qwen3", "Qwen3", 151936, 32768, **WINDOW, qk_norm=True, attention_bias=ConfigKey("attention_bias", False)
)
