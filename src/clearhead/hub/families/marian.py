"""Marian (Junczys-Dowmunt et al. 2018): the Transformer of 2017, as trained by OPUS-MT for many language pairs."""

from clearhead.hub.mapping import ConfigKey, Family, HeadMapping, activation
from clearhead.hub.tensor_map import row


def layer(stack: str) -> dict[str, str]:
    """Returns the tensor names of a layer, which BART shares."""
    source, target = f"{stack}.layers.{{}}", f"{stack}.blocks.{{}}"
    names = {
        "self_attn.q_proj": "attention.query",
        "self_attn.k_proj": "attention.key",
        "self_attn.v_proj": "attention.value",
        "self_attn.out_proj": "attention.output",
        "self_attn_layer_norm": "attention_norm",
        "encoder_attn.q_proj": "cross.query",
        "encoder_attn.k_proj": "cross.key",
        "encoder_attn.v_proj": "cross.value",
        "encoder_attn.out_proj": "cross.output",
        "encoder_attn_layer_norm": "cross_norm",
        "fc1": "feedforward.up",
        "fc2": "feedforward.down",
        "final_layer_norm": "feedforward_norm",
    }
    return {f"{source}.{a}": f"{target}.{b}" for a, b in names.items() if stack == "decoder" or "cross" not in b}


CONFIG = {
    "width": ConfigKey("d_model", 1024),
    "max_len": ConfigKey("max_position_embeddings", 1024),
    "encoder.num_layers": ConfigKey("encoder_layers", 12),
    "encoder.num_heads": ConfigKey("encoder_attention_heads", 16),
    "encoder.ffn_dim": ConfigKey("encoder_ffn_dim", 4096),
    "decoder.num_layers": ConfigKey("decoder_layers", 12),
    "decoder.num_heads": ConfigKey("decoder_attention_heads", 16),
    "decoder.ffn_dim": ConfigKey("decoder_ffn_dim", 4096),
    "activation": activation("activation_function", "gelu"),
    "scale_embeddings": ConfigKey("scale_embedding", False),
    "dropout": ConfigKey("dropout", 0.1),
    "attention_dropout": ConfigKey("attention_dropout", 0.0),
    "hidden_dropout": ConfigKey("activation_dropout", 0.0),
}
WORDS = HeadMapping("lm", {"lm_head.weight": "output.weight", "final_logits_bias": row("output.bias")})
IGNORED = (r".*(encoder|decoder)\.embed_tokens\.weight", r".*embed_positions\.weight")

MARIAN = Family(
    model_type="marian",
    title="Marian",
    prefix="model",
    stacks=("encoder", "decoder"),
    config={"vocab_size": ConfigKey("vocab_size", 58101), **CONFIG},
    constants={"positions": "sinusoidal_concat"},
    weights={"shared": "encoder.embedding.tokens", **layer("encoder"), **layer("decoder")},
    heads={"MarianModel": HeadMapping(None, prefixed=False), "MarianMTModel": WORDS},
    required_values={"share_encoder_decoder_embeddings": (True,), "is_decoder": (False,)},
    aliases={"shared.weight": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")},
    ignored=IGNORED,
)
