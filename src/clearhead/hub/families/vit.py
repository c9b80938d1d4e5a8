"""ViT (Dosovitskiy et al. 2021)."""

from typing import Any

from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, activation
from clearhead.vision import PatchConfig

LAYER = {
    "encoder.layer.{}.layernorm_before": "encoder.blocks.{}.attention_norm",
    "encoder.layer.{}.attention.attention.query": "encoder.blocks.{}.attention.query",
    "encoder.layer.{}.attention.attention.key": "encoder.blocks.{}.attention.key",
    "encoder.layer.{}.attention.attention.value": "encoder.blocks.{}.attention.value",
    "encoder.layer.{}.attention.output.dense": "encoder.blocks.{}.attention.output",
    "encoder.layer.{}.layernorm_after": "encoder.blocks.{}.feedforward_norm",
    "encoder.layer.{}.intermediate.dense": "encoder.blocks.{}.feedforward.up",
    "encoder.layer.{}.output.dense": "encoder.blocks.{}.feedforward.down",
}
SIZES = ("image_size", "patch_size", "num_channels")


def patches(*, patch_size: int = 16, **fixed: Any) -> DerivedKey:
    """Returns the config key of the patches, with the family's default size and what is fixed for it."""
    default: dict[str, Any] = {"image_size": 224, "patch_size": patch_size, "num_channels": 3}
    return DerivedKey(
        lambda c: PatchConfig(**fixed, **{n: default[n] if c.get(n) is None else c[n] for n in SIZES}),
        lambda v, _: {n: getattr(v, n) for n in SIZES},
    )


DEPTH_AND_WIDTH = {
    "width": ConfigKey("hidden_size", 768),
    "num_layers": ConfigKey("num_hidden_layers", 12),
    "num_heads": ConfigKey("num_attention_heads", 12),
    "ffn_dim": ConfigKey("intermediate_size", 3072),
}

VIT = Family(
    model_type="vit",
    title="ViT",
    prefix="vit",
    stacks=("encoder",),
    config={
        "patches": patches(),
        **DEPTH_AND_WIDTH,
        "activation": activation("hidden_act", "gelu"),
        "norm_eps": ConfigKey("layer_norm_eps", 1e-12),
        "attention_bias": ConfigKey("qkv_bias", True),
        "dropout": ConfigKey("hidden_dropout_prob", 0.0),
        "attention_dropout": ConfigKey("attention_probs_dropout_prob", 0.0),
    },
    constants={"positions": "none", "norm_first": True, "output_bias": True},
    weights={
        "embeddings.cls_token": "encoder.embedding.token",
        "embeddings.position_embeddings": "encoder.embedding.positions",
        "embeddings.patch_embeddings.projection": "encoder.embedding.project",
        **LAYER,
        "layernorm": "encoder.norm",
    },
    heads={
        "ViTModel": HeadMapping("pooler", {"~pooler.dense": "pooler"}, {"pooler": True}, prefixed=False),
        "ViTForImageClassification": HeadMapping("sequence", {"classifier": "output"}),
    },
    required_values={"pooler_act": ("tanh",)},
)
