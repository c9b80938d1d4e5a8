"""GPT-2 (Radford et al. 2019)."""

from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, activation
from clearhead.hub.tensor_map import joined, transposed

LAYER = {
    "h.{}.ln_1": "decoder.blocks.{}.attention_norm",
    "h.{}.attn.c_attn": joined(
        "decoder.blocks.{}.attention.query",
        "decoder.blocks.{}.attention.key",
        "decoder.blocks.{}.attention.value",
        transposed=True,
    ),
    "h.{}.attn.c_proj": transposed("decoder.blocks.{}.attention.output"),
    "h.{}.ln_2": "decoder.blocks.{}.feedforward_norm",
    "h.{}.mlp.c_fc": transposed("decoder.blocks.{}.feedforward.up"),
    "h.{}.mlp.c_proj": transposed("decoder.blocks.{}.feedforward.down"),
}

GPT2 = Family(
    model_type="gpt2",
    title="GPT-2",
    prefix="transformer",
    stacks=("decoder",),
    config={
        "vocab_size": ConfigKey("vocab_size", 50257),
        "width": ConfigKey(("n_embd", "hidden_size"), 768),
        "num_layers": ConfigKey(("n_layer", "num_hidden_layers"), 12),
        "num_heads": ConfigKey(("n_head", "num_attention_heads"), 12),
        "ffn_dim": DerivedKey(lambda c: c.get("n_inner") or 4 * c.get("n_embd", 768), lambda v, _: {"n_inner": v}),
        "max_len": ConfigKey(("n_positions", "max_position_embeddings"), 1024),
        "activation": activation("activation_function", "gelu_new"),
        "norm_eps": ConfigKey("layer_norm_epsilon", 1e-5),
        "dropout": ConfigKey("resid_pdrop", 0.1),
        "embedding_dropout": ConfigKey("embd_pdrop", 0.1),
        "attention_dropout": ConfigKey("attn_pdrop", 0.1),
    },
    constants={"positions": "learned", "norm_first": True},
    weights={
        "wte": "decoder.embedding.tokens",
        "wpe": "decoder.embedding.positions.table",
        **LAYER,
        "ln_f": "decoder.norm",
    },
    heads={
        "GPT2Model": HeadMapping(None, prefixed=False),
        "GPT2LMHeadModel": HeadMapping("lm", {"lm_head": "output"}, {"bias": False}),
        "GPT2ForSequenceClassification": HeadMapping("sequence", {"score": "output"}, {"bias": False, "pool": "last"}),
        "GPT2ForTokenClassification": HeadMapping(
            "token", {"classifier": "output"}, {"dropout": ConfigKey(("classifier_dropout", "hidden_dropout"), 0.1)}
        ),
        "GPT2ForQuestionAnswering": HeadMapping("span", {"qa_outputs": "output"}, {"labels": ("start", "end")}),
    },
    required_values={
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
    },
    ignored=(r".*attn\.(masked_)?bias",),
)
