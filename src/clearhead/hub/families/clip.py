"""The two towers of CLIP (Radford et al. 2021): images and texts as vectors of one space.

The vectors are those of the class token and of the end of the text, after the last norm; `...WithProjection` maps them
into the common space.
"""

from clearhead.hub.families.vit import DEPTH_AND_WIDTH, patches
from clearhead.hub.mapping import ConfigKey, Family, HeadMapping, activation
from clearhead.hub.tensor_map import squeezed


def layers(stack: str) -> dict[str, str]:
    """Returns the names of the weights of all layers."""
    ours = f"{stack}.blocks.{{}}"
    return {
        "encoder.layers.{}.layer_norm1": f"{ours}.attention_norm",
        "encoder.layers.{}.self_attn.q_proj": f"{ours}.attention.query",
        "encoder.layers.{}.self_attn.k_proj": f"{ours}.attention.key",
        "encoder.layers.{}.self_attn.v_proj": f"{ours}.attention.value",
        "encoder.layers.{}.self_attn.out_proj": f"{ours}.attention.output",
        "encoder.layers.{}.layer_norm2": f"{ours}.feedforward_norm",
        "encoder.layers.{}.mlp.fc1": f"{ours}.feedforward.up",
        "encoder.layers.{}.mlp.fc2": f"{ours}.feedforward.down",
    }


def text_weights(stack: str) -> dict[str, str]:
    """Returns the names of all weights of a text tower without its head, which SigLIP shares."""
    return {
        "embeddings.token_embedding": f"{stack}.embedding.tokens",
        "embeddings.position_embedding": f"{stack}.embedding.positions.table",
        **layers(stack),
        "final_layer_norm": f"{stack}.norm",
    }


SHARED = {
    "activation": activation("hidden_act", "quick_gelu"),
    "norm_eps": ConfigKey("layer_norm_eps", 1e-5),
    "attention_dropout": ConfigKey("attention_dropout", 0.0),
}
PROJECTION = {"projection": ConfigKey("projection_dim", 512)}

CLIP_VISION = Family(
    model_type="clip_vision_model",
    title="CLIP (images)",
    prefix="vision_model",
    stacks=("encoder",),
    config={
        "patches": patches(patch_size=32, bias=False),
        **DEPTH_AND_WIDTH,
        **SHARED,
    },
    constants={"positions": "none", "norm_first": True, "embedding_norm": True, "dropout": 0.0},
    weights={
        "embeddings.class_embedding": squeezed("encoder.embedding.token", 2),
        "embeddings.patch_embedding": "encoder.embedding.project",
        "embeddings.position_embedding.weight": squeezed("encoder.embedding.positions", 1),
        "pre_layrnorm": "encoder.embedding.norm",
        **layers("encoder"),
        "post_layernorm": "encoder.norm",
    },
    heads={
        "CLIPVisionModel": HeadMapping("pooler", prefixed=False),
        "CLIPVisionModelWithProjection": HeadMapping("pooler", {"visual_projection": "projection"}, PROJECTION),
    },
)

CLIP_TEXT = Family(
    model_type="clip_text_model",
    title="CLIP (texts)",
    prefix="text_model",
    stacks=("decoder",),
    config={
        "vocab_size": ConfigKey("vocab_size", 49408),
        "width": ConfigKey("hidden_size", 512),
        "num_layers": ConfigKey("num_hidden_layers", 12),
        "num_heads": ConfigKey("num_attention_heads", 8),
        "ffn_dim": ConfigKey("intermediate_size", 2048),
        "max_len": ConfigKey("max_position_embeddings", 77),
        **SHARED,
    },
    constants={"positions": "learned", "norm_first": True, "dropout": 0.0},
    weights=text_weights("decoder"),
    heads={
        "CLIPTextModel": HeadMapping("pooler", settings={"pool": "last"}, prefixed=False),
        "CLIPTextModelWithProjection": HeadMapping(
            "pooler", {"text_projection": "projection"}, {"pool": "last", **PROJECTION}
        ),
    },
)
