"""Reformer (Kitaev et al. 2020): two residual streams, axial positions, chunks of neighbours or of hashed tokens."""

import math
from typing import Any

from clearhead.hub.families.bert import CLASSIFIER
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, Raw, activation
from clearhead.hub.tensor_map import TensorMap
from clearhead.models.attention_methods import method_entries

LAYERS = ("local", "lsh", "local", "lsh", "local", "lsh")
NAMES = {"chunk": "attn_chunk_length", "before": "num_chunks_before", "after": "num_chunks_after"}
DEFAULTS = {"chunk": 64, "before": 1, "after": 0}


def _layers(raw: Raw) -> list[str]:
    layers: list[str] = list(raw.get("attn_layers") or LAYERS)
    if unknown := set(layers) - {"lsh", "local"}:
        raise ValueError(f"config.json has attn_layers {sorted(unknown)}: Reformer's are 'lsh' and 'local'")
    return layers


def _method(raw: Raw, kind: str) -> dict[str, Any]:
    chunks = {layer: raw.get(f"{layer}_attn_chunk_length") or 64 for layer in _layers(raw)}
    sizes = {name: raw.get(f"{kind}_{theirs}", DEFAULTS[name]) for name, theirs in NAMES.items()}
    shared = {"unit": math.lcm(*chunks.values()), "minimum": min(chunks.values())}
    if kind == "local":
        return {"kind": "reformer_local", **sizes, **shared}
    buckets = raw.get("num_buckets")
    hashing = {"rounds": raw.get("num_hashes", 1), "seed": raw.get("hash_seed") or 0}
    hashing |= {"buckets": tuple(buckets) if isinstance(buckets, list) else buckets}
    return {"kind": "reformer_lsh", **sizes, **hashing, **shared, "max_len": raw.get("max_position_embeddings", 4096)}


def _write(value: tuple[dict[str, Any], ...], raw: Raw) -> dict[str, Any]:
    if any(not str(method.get("kind")).startswith("reformer_") for method in value):
        return {}  # another method, which has a key of its own
    out: dict[str, Any] = {}
    kinds: dict[int, str] = {}
    for method in value:
        kind = str(method["kind"]).removeprefix("reformer_")
        kinds |= dict.fromkeys(method.get("layers", range(len(_layers(raw)))), kind)
        out |= {f"{kind}_{theirs}": method[name] for name, theirs in NAMES.items() if name in method}
        if kind == "lsh":
            out |= {"num_hashes": method["rounds"], "num_buckets": method["buckets"], "hash_seed": method["seed"]}
    return {"attn_layers": [kinds[i] for i in sorted(kinds)], **out}


def _axes(raw: Raw) -> tuple[tuple[int, int], tuple[int, int]] | None:
    if not raw.get("axial_pos_embds", True):
        return None
    counts, widths = raw.get("axial_pos_shape", (64, 64)), raw.get("axial_pos_embds_dim", (64, 192))
    return (counts[0], widths[0]), (counts[1], widths[1])


def _write_axes(value: tuple[tuple[int, int], tuple[int, int]] | None, raw: Raw) -> dict[str, Any]:
    if value is None:
        return {"axial_pos_embds": False}
    (rows, row_width), (columns, column_width) = value
    shape = {"axial_pos_shape": [rows, columns], "axial_pos_embds_dim": [row_width, column_width]}
    return {"axial_pos_embds": True, **shape}


def _max_len(raw: Raw) -> int:
    longest, axes = raw.get("max_position_embeddings", 4096), _axes(raw)
    return longest if axes is None else min(longest, axes[0][0] * axes[1][0])


BLOCK, LAYER = "{stack}.blocks.{}", "encoder.layers.{}"
ATTENTION = f"{LAYER}.attention.self_attention"
WEIGHTS: dict[str, str | TensorMap] = {
    "embeddings.word_embeddings": "{stack}.embedding.tokens",
    "embeddings.position_embeddings.weights.0": "{stack}.embedding.positions.rows",
    "embeddings.position_embeddings.weights.1": "{stack}.embedding.positions.columns",
    "embeddings.position_embeddings.embedding": "{stack}.embedding.positions.table",
    f"{ATTENTION}.query_key": f"{BLOCK}.attention.query",
    # the queries of local layers have a projection of their own
    f"{ATTENTION}.query": TensorMap((f"{BLOCK}.attention.query",), requires=f"{BLOCK}.attention.key"),
    f"{ATTENTION}.key": f"{BLOCK}.attention.key",
    f"{ATTENTION}.value": f"{BLOCK}.attention.value",
    f"{LAYER}.attention.output.dense": f"{BLOCK}.attention.output",
    f"{LAYER}.attention.layer_norm": f"{BLOCK}.attention_norm",
    f"{LAYER}.feed_forward.layer_norm": f"{BLOCK}.feedforward_norm",
    f"{LAYER}.feed_forward.dense.dense": f"{BLOCK}.feedforward.up",
    f"{LAYER}.feed_forward.output.dense": f"{BLOCK}.feedforward.down",
    "encoder.layer_norm": "{stack}.norm",
}


WIDTH = {"width": lambda s: s.encoded_width}
ENCODER: dict[str, Any] = {"stacks": ("encoder",), "required_values": {"is_decoder": False}}

REFORMER = Family(
    model_type="reformer",
    title="Reformer",
    prefix="reformer",
    stacks=("encoder", "decoder"),
    config={
        "vocab_size": ConfigKey("vocab_size", 320),
        "width": ConfigKey("hidden_size", 256),
        "num_layers": DerivedKey(lambda raw: len(_layers(raw))),
        "num_heads": ConfigKey("num_attention_heads", 12),
        "head_dim": ConfigKey("attention_head_size", 64),
        "ffn_dim": ConfigKey("feed_forward_size", 512),
        "max_len": DerivedKey(_max_len, lambda value, raw: {"max_position_embeddings": value}),
        "positions": DerivedKey(lambda raw: "learned" if _axes(raw) is None else "axial"),
        "axes": DerivedKey(_axes, _write_axes),
        "attention": DerivedKey(lambda raw: method_entries([_method(raw, kind) for kind in _layers(raw)]), _write),
        "activation": activation("hidden_act", "relu"),
        "norm_eps": ConfigKey("layer_norm_eps", 1e-12),
        "dropout": ConfigKey("hidden_dropout_prob", 0.05),
        "attention_dropout": ConfigKey("local_attention_probs_dropout_prob", 0.05),
    },
    constants={"norm_first": True, "attention_bias": False, "reversible": True},
    weights=WEIGHTS,
    heads={
        "ReformerModel": HeadMapping(None, prefixed=False, **ENCODER),
        "ReformerModelWithLMHead": HeadMapping(
            "lm",
            {"lm_head.decoder": "output"},
            {**WIDTH, "bias": False},
            stacks=("decoder",),
            required_values={"is_decoder": True},
        ),
        "ReformerForMaskedLM": HeadMapping("lm", {"lm_head.decoder": "output"}, {**WIDTH, "bias": False}, **ENCODER),
        "ReformerForSequenceClassification": HeadMapping(
            "sequence",
            CLASSIFIER,
            {
                **WIDTH,
                "inner": lambda s: s.width,
                "activation": "tanh",
                "dropout": ConfigKey(("classifier_dropout", "hidden_dropout_prob"), 0.05),
            },
            **ENCODER,
        ),
        "ReformerForQuestionAnswering": HeadMapping(
            "span", {"qa_outputs": "output"}, {**WIDTH, "labels": ("start", "end")}, **ENCODER
        ),
    },
    tied=False,
    ignored=(r"lm_head\.bias",),  # a parameter that nothing reads
)
