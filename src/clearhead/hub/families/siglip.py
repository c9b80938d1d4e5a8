"""The image tower of SigLIP (Zhai et al. 2023)."""

from clearhead.hub.families.clip import layers
from clearhead.hub.families.vit import DEPTH_AND_WIDTH, patches
from clearhead.hub.mapping import ConfigKey, Family, HeadMapping, activation, squeezed

SIGLIP_VISION = Family(
    model_type="siglip_vision_model",
    title="SigLIP (images)",
    prefix="vision_model",
    stacks=("encoder",),
    config={
        "patches": patches(class_token=False),
        **DEPTH_AND_WIDTH,
        "activation": activation("hidden_act", "gelu_pytorch_tanh"),
        "norm_eps": ConfigKey("layer_norm_eps", 1e-6),
        "attention_dropout": ConfigKey("attention_dropout", 0.0),
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
