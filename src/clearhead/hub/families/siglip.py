"""The two towers of SigLIP (Zhai et al. 2023).

The vector of a text is that of its last position: texts are filled up to the full length, and that is attended to.
"""

from clearhead.hub.families.clip import layers, text_weights
from clearhead.hub.families.vit import DEPTH_AND_WIDTH, patches
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, activation
from clearhead.hub.tensor_map import squeezed

SHARED = {
    "activation": activation("hidden_act", "gelu_pytorch_tanh"),
    "norm_eps": ConfigKey("layer_norm_eps", 1e-6),
    "attention_dropout": ConfigKey("attention_dropout", 0.0),
}

SIGLIP_VISION = Family(
    model_type="siglip_vision_model",
    title="SigLIP (images)",
    prefix="vision_model",
    stacks=("encoder",),
    config={
        "patches": patches(class_token=False),
        **DEPTH_AND_WIDTH,
        **SHARED,
    },
    constants={"positions": "none", "norm_first": True, "dropout": 0.0},
    weights={
        "embeddings.patch_embedding": "encoder.embedding.project",
        "embeddings.position_embedding.weight": squeezed("encoder.embedding.positions", 1),
        **layers("encoder"),
        "post_layernorm": "encoder.norm",
    },
    heads={
        "SiglipVisionModel": HeadMapping(
            "attention_pooler",
            {
                "~head.probe": "probe",
                "~head.attention.in_proj_weight": "in_weight",
                "~head.attention.in_proj_bias": "in_bias",
                "~head.attention.out_proj": "attention_output",
                "~head.layernorm": "norm",
                "~head.mlp.fc1": "feedforward.up",
                "~head.mlp.fc2": "feedforward.down",
            },
            {
                "num_heads": lambda stack: stack.num_heads,
                "inner": lambda stack: stack.ffn_dim,
                "activation": lambda stack: stack.activation,
                "norm_eps": lambda stack: stack.norm_eps,
            },
            prefixed=False,
        ),
    },
    required_values={"vision_use_head": (True,)},
)

SIGLIP_TEXT = Family(
    model_type="siglip_text_model",
    title="SigLIP (texts)",
    prefix="text_model",
    stacks=("encoder",),
    config={
        "vocab_size": ConfigKey("vocab_size", 32000),
        **DEPTH_AND_WIDTH,
        "max_len": ConfigKey("max_position_embeddings", 64),
        **SHARED,
    },
    constants={"positions": "learned", "norm_first": True, "dropout": 0.0},
    weights=text_weights("encoder"),
    heads={
        "SiglipTextModel": HeadMapping(
            "pooler",
            {"~head": "projection"},
            {
                "pool": "last",
                "projection": DerivedKey(
                    lambda c: c.get("projection_size") or c.get("hidden_size", 768), lambda v, _: {"projection_size": v}
                ),
                "projection_bias": True,
            },
            prefixed=False,
        ),
    },
)
