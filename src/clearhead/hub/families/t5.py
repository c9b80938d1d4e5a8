"""T5 (Raffel et al. 2020): relative position biases, unscaled scores, RMS norms."""

from clearhead.hub.mapping import ACTIVATION, ConfigKey, DerivedKey, Family, HeadMapping, Raw
from clearhead.hub.tensor_map import TensorMap

ATTENTION = {"q": "query", "k": "key", "v": "value", "o": "output"}


def _layer(stack: str) -> dict[str, str | TensorMap]:
    block, target = f"{stack}.block.{{}}.layer", f"{stack}.blocks.{{}}"
    last = 1 if stack == "encoder" else 2
    out: dict[str, str | TensorMap] = {
        f"{block}.0.SelfAttention.{a}": f"{target}.attention.{b}" for a, b in ATTENTION.items()
    }
    out[f"{block}.0.layer_norm"] = f"{target}.attention_norm"
    if stack == "decoder":
        out |= {f"{block}.1.EncDecAttention.{a}": f"{target}.cross.{b}" for a, b in ATTENTION.items()}
        out[f"{block}.1.layer_norm"] = f"{target}.cross_norm"
    names = {"wi": "up", "wi_0": "gate", "wo": "down"}
    out |= {f"{block}.{last}.DenseReluDense.{a}": f"{target}.feedforward.{b}" for a, b in names.items()}
    gated = TensorMap((f"{target}.feedforward.up",), requires=f"{target}.feedforward.gate")
    out[f"{block}.{last}.DenseReluDense.wi_1"] = gated
    out[f"{block}.{last}.layer_norm"] = f"{target}.feedforward_norm"
    # one table for all layers, stored in the first
    out[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias"] = f"{stack}.bias.table"
    out[f"{stack}.final_layer_norm"] = f"{stack}.norm"
    return out


def _activation(raw: Raw) -> str:
    name = str(raw.get("feed_forward_proj", "relu"))
    return "gelu_tanh" if name == "gated-gelu" else ACTIVATION.get(name.removeprefix("gated-"), name)


def _scale(raw: Raw) -> float:
    """Returns the scale before the output layer: T5 scales, T5 1.1 does not, which its untied config shows."""
    scaled = raw.get("scale_decoder_outputs", raw.get("tie_word_embeddings") is not False)
    return raw.get("d_model", 512) ** -0.5 if scaled else 1.0


SCALE = DerivedKey(_scale, lambda scale, _: {"scale_decoder_outputs": scale != 1.0})

T5 = Family(
    model_type="t5",
    title="T5",
    prefix="transformer",
    stacks=("encoder", "decoder"),
    config={
        "vocab_size": ConfigKey("vocab_size", 32128),
        "width": ConfigKey("d_model", 512),
        "head_dim": ConfigKey("d_kv", 64),
        "ffn_dim": ConfigKey("d_ff", 2048),
        "encoder.num_layers": ConfigKey("num_layers", 6),
        "decoder.num_layers": ConfigKey(("num_decoder_layers", "num_layers"), 6),
        "num_heads": ConfigKey("num_heads", 8),
        "num_buckets": ConfigKey("relative_attention_num_buckets", 32),
        "max_distance": ConfigKey("relative_attention_max_distance", 128),
        "norm_eps": ConfigKey("layer_norm_epsilon", 1e-6),
        "gated": DerivedKey(
            lambda raw: str(raw.get("feed_forward_proj", "relu")).startswith("gated-"),
            lambda gated, _: {"feed_forward_proj": "gated-gelu" if gated else "relu"},
        ),
        "activation": DerivedKey(_activation),
        "dropout": ConfigKey("dropout_rate", 0.1),
        "attention_dropout": ConfigKey("dropout_rate", 0.1),
        "hidden_dropout": ConfigKey("dropout_rate", 0.1),
    },
    constants={"positions": "t5", "norm": "rms", "norm_first": True, "bias": False, "scaled_scores": False},
    weights={"shared": "encoder.embedding.tokens", **_layer("encoder"), **_layer("decoder")},
    heads={
        "T5Model": HeadMapping(None, prefixed=False),
        "T5ForConditionalGeneration": HeadMapping(
            "lm",
            {"lm_head": "output"},
            {"bias": False, "scale": SCALE, "tied": True},
            prefixed=False,
        ),
        "T5EncoderModel": HeadMapping(None, prefixed=False, stacks=("encoder",)),
        "T5ForTokenClassification": HeadMapping(
            "token", {"classifier": "output"}, {"dropout": ConfigKey("classifier_dropout", 0.0)}, stacks=("encoder",)
        ),
    },
    required_values={"is_decoder": (False,)},
    aliases={"shared.weight": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")},
    ignored=(r".*embed_tokens\.weight", r".*EncDecAttention\.relative_attention_bias\.weight"),
)
