"""DINOv2 (Oquab et al. 2024)."""

from clearhead.hub.families.vit import VIT
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping
from clearhead.models.heads import IMAGE_POOL
from clearhead.vision import PatchConfig

DEFAULTS = {"image_size": 224, "patch_size": 14, "num_channels": 3}
LAYER = {
    "encoder.layer.{}.norm1": "encoder.blocks.{}.attention_norm",
    "encoder.layer.{}.attention.attention.query": "encoder.blocks.{}.attention.query",
    "encoder.layer.{}.attention.attention.key": "encoder.blocks.{}.attention.key",
    "encoder.layer.{}.attention.attention.value": "encoder.blocks.{}.attention.value",
    "encoder.layer.{}.attention.output.dense": "encoder.blocks.{}.attention.output",
    "encoder.layer.{}.layer_scale1.lambda1": "encoder.blocks.{}.attention_scale.weight",
    "encoder.layer.{}.norm2": "encoder.blocks.{}.feedforward_norm",
    "encoder.layer.{}.mlp.fc1": "encoder.blocks.{}.feedforward.up",
    "encoder.layer.{}.mlp.fc2": "encoder.blocks.{}.feedforward.down",
    "encoder.layer.{}.layer_scale2.lambda1": "encoder.blocks.{}.feedforward_scale.weight",
}

DINOV2 = Family(
    model_type="dinov2",
    title="DINOv2",
    prefix="dinov2",
    stacks=("encoder",),
    config={
        **VIT.config,
        "patches": DerivedKey(
            lambda c: PatchConfig(
                mask_token=c.get("use_mask_token", True), **{n: c.get(n, default) for n, default in DEFAULTS.items()}
            ),
            lambda v, _: {"use_mask_token": v.mask_token, **{n: getattr(v, n) for n in DEFAULTS}},
        ),
        "ffn_dim": DerivedKey(
            lambda c: int(c.get("hidden_size", 768) * c.get("mlp_ratio", 4)),
            lambda v, c: {"mlp_ratio": v / c.get("hidden_size", 768)},
        ),
        "norm_eps": ConfigKey("layer_norm_eps", 1e-6),
        "layer_scale": ConfigKey("layerscale_value", 1.0),
    },
    constants=VIT.constants,
    weights={
        "embeddings.cls_token": "encoder.embedding.token",
        "embeddings.mask_token": "encoder.embedding.mask",
        "embeddings.position_embeddings": "encoder.embedding.positions",
        "embeddings.patch_embeddings.projection": "encoder.embedding.project",
        **LAYER,
        "layernorm": "encoder.norm",
    },
    heads={
        "Dinov2Model": HeadMapping("pooler", prefixed=False),
        "Dinov2ForImageClassification": HeadMapping("sequence", {"classifier": "output"}, {"pool": IMAGE_POOL}),
    },
    required_values={"use_swiglu_ffn": (False,)},
)
