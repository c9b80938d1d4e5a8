"""DistilBERT (Sanh et al. 2019)."""

from clearhead.hub.mapping import ConfigKey, Family, HeadMapping, activation

LAYER = {
    "transformer.layer.{}.attention.q_lin": "encoder.blocks.{}.attention.query",
    "transformer.layer.{}.attention.k_lin": "encoder.blocks.{}.attention.key",
    "transformer.layer.{}.attention.v_lin": "encoder.blocks.{}.attention.value",
    "transformer.layer.{}.attention.out_lin": "encoder.blocks.{}.attention.output",
    "transformer.layer.{}.sa_layer_norm": "encoder.blocks.{}.attention_norm",
    "transformer.layer.{}.ffn.lin1": "encoder.blocks.{}.feedforward.up",
    "transformer.layer.{}.ffn.lin2": "encoder.blocks.{}.feedforward.down",
    "transformer.layer.{}.output_layer_norm": "encoder.blocks.{}.feedforward_norm",
}

DISTILBERT = Family(
    model_type="distilbert",
    title="DistilBERT",
    prefix="distilbert",
    stacks=("encoder",),
    config={
        "vocab_size": ConfigKey("vocab_size", 30522),
        "width": ConfigKey("dim", 768),
        "num_layers": ConfigKey("n_layers", 6),
        "num_heads": ConfigKey("n_heads", 12),
        "ffn_dim": ConfigKey("hidden_dim", 3072),
        "max_len": ConfigKey("max_position_embeddings", 512),
        "activation": activation("activation", "gelu"),
        "dropout": ConfigKey("dropout", 0.1),
        "attention_dropout": ConfigKey("attention_dropout", 0.1),
    },
    constants={"positions": "learned", "embedding_norm": True, "norm_eps": 1e-12},
    weights={
        "embeddings.word_embeddings": "encoder.embedding.tokens",
        "embeddings.position_embeddings": "encoder.embedding.positions.table",
        "embeddings.LayerNorm": "encoder.embedding.norm",
        **LAYER,
    },
    heads={
        "DistilBertModel": HeadMapping(None, prefixed=False),
        "DistilBertForMaskedLM": HeadMapping(
            "lm",
            {"vocab_transform": "inner.dense", "vocab_layer_norm": "inner.norm", "vocab_projector": "output"},
            {"inner": lambda s: s.width, "activation": lambda s: s.activation, "norm_eps": 1e-12},
        ),
        "DistilBertForSequenceClassification": HeadMapping(
            "sequence",
            {"pre_classifier": "inner.dense", "classifier": "output"},
            {"inner": lambda s: s.width, "activation": "relu", "dropout": ConfigKey("seq_classif_dropout", 0.2)},
        ),
        "DistilBertForTokenClassification": HeadMapping(
            "token", {"classifier": "output"}, {"dropout": ConfigKey("dropout", 0.1)}
        ),
        "DistilBertForQuestionAnswering": HeadMapping(
            "span", {"qa_outputs": "output"}, {"labels": ("start", "end"), "dropout": ConfigKey("qa_dropout", 0.1)}
        ),
    },
    ignored=(r".*position_ids",),
)
