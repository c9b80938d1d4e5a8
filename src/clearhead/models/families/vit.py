"""ViT (Dosovitskiy et al. 2021)."""

from dataclasses import asdict

from clearhead.models.families.table import Derived, Family, Head, Key, activation
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

VIT = Family(
    model_type="vit",
    title="ViT",
    prefix="vit",
    stacks=("encoder",),
    config={
        "patches": Derived(
            lambda c: PatchConfig(**{n: c[n] for n in SIZES if c.get(n) is not None}), lambda v, _: asdict(v)
        ),
        "width": Key("hidden_size", 768),
        "num_layers": Key("num_hidden_layers", 12),
        "num_heads": Key("num_attention_heads", 12),
        "hidden": Key("intermediate_size", 3072),
        "activation": activation("hidden_act", "gelu"),
        "norm_eps": Key("layer_norm_eps", 1e-12),
        "attention_bias": Key("qkv_bias", True),
        "dropout": Key("hidden_dropout_prob", 0.0),
        "attention_dropout": Key("attention_probs_dropout_prob", 0.0),
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
        "ViTModel": Head("pooler", {"~pooler.dense": "pooler"}, {"pooler": True}, prefixed=False),
        "ViTForImageClassification": Head("sequence", {"classifier": "output"}),
    },
    needs={"pooler_act": ("tanh",)},
)
