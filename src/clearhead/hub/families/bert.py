"""BERT (Devlin et al. 2019)."""

from clearhead.hub.mapping import ConfigKey, Family, HeadMapping, activation

PREDICTIONS = {
    "cls.predictions.transform.dense": "inner.dense",
    "cls.predictions.transform.LayerNorm": "inner.norm",
    "cls.predictions.decoder.weight": "output.weight",
    "cls.predictions.bias": "output.bias",
}
LAYER = {
    "encoder.layer.{}.attention.self.query": "encoder.blocks.{}.attention.query",
    "encoder.layer.{}.attention.self.key": "encoder.blocks.{}.attention.key",
    "encoder.layer.{}.attention.self.value": "encoder.blocks.{}.attention.value",
    "encoder.layer.{}.attention.output.dense": "encoder.blocks.{}.attention.output",
    "encoder.layer.{}.attention.output.LayerNorm": "encoder.blocks.{}.attention_norm",
    "encoder.layer.{}.intermediate.dense": "encoder.blocks.{}.feedforward.up",
    "encoder.layer.{}.output.dense": "encoder.blocks.{}.feedforward.down",
    "encoder.layer.{}.output.LayerNorm": "encoder.blocks.{}.feedforward_norm",
}
EMBEDDINGS = {
    "embeddings.word_embeddings": "encoder.embedding.tokens",
    "embeddings.position_embeddings": "encoder.embedding.positions.table",
    "embeddings.token_type_embeddings": "encoder.embedding.segments",
    "embeddings.LayerNorm": "encoder.embedding.norm",
}
CONFIG = {
    "vocab_size": ConfigKey("vocab_size", 30522),
    "width": ConfigKey("hidden_size", 768),
    "num_layers": ConfigKey("num_hidden_layers", 12),
    "num_heads": ConfigKey("num_attention_heads", 12),
    "ffn_dim": ConfigKey("intermediate_size", 3072),
    "max_len": ConfigKey("max_position_embeddings", 512),
    "num_segments": ConfigKey("type_vocab_size", 2),
    "activation": activation("hidden_act", "gelu"),
    "norm_eps": ConfigKey("layer_norm_eps", 1e-12),
    "dropout": ConfigKey("hidden_dropout_prob", 0.1),
    "attention_dropout": ConfigKey("attention_probs_dropout_prob", 0.1),
}
WORDS = {"inner": lambda s: s.width, "activation": lambda s: s.activation, "norm_eps": lambda s: s.norm_eps}
DROPOUT = {"dropout": ConfigKey(("classifier_dropout", "hidden_dropout_prob"), 0.1)}
POOLED = {"pooler": True, **DROPOUT}
CLASSIFIER = {"classifier.dense": "inner.dense", "classifier.out_proj": "output"}
INNER = {"inner": lambda s: s.width, "activation": lambda s: s.activation, **DROPOUT}
IGNORED = (r".*position_ids", r".*token_type_ids", r"cls\.predictions\.decoder\.bias")

BERT = Family(
    model_type="bert",
    title="BERT",
    prefix="bert",
    stacks=("encoder",),
    config=CONFIG,
    constants={"positions": "learned", "embedding_norm": True},
    weights={**EMBEDDINGS, **LAYER},
    heads={
        "BertModel": HeadMapping("pooler", {"~pooler.dense": "pooler"}, {"pooler": True}, prefixed=False),
        "BertForMaskedLM": HeadMapping("lm", PREDICTIONS, WORDS),
        "BertForPreTraining": HeadMapping(
            "pretraining",
            {
                **{k: f"words.{v}" for k, v in PREDICTIONS.items()},
                "~pooler.dense": "pooler",
                "cls.seq_relationship": "nsp",
            },
            WORDS,
        ),
        "BertForNextSentencePrediction": HeadMapping(
            "nsp",
            {"~pooler.dense": "pooler", "cls.seq_relationship": "output"},
            {"pooler": True, "labels": ("next", "random")},
        ),
        "BertForSequenceClassification": HeadMapping(
            "sequence", {"~pooler.dense": "pooler", "classifier": "output"}, POOLED
        ),
        "BertForTokenClassification": HeadMapping("token", {"classifier": "output"}, DROPOUT),
        "BertForQuestionAnswering": HeadMapping("span", {"qa_outputs": "output"}, {"labels": ("start", "end")}),
    },
    required_values={"is_decoder": (False,), "add_cross_attention": (False,), "position_embedding_type": ("absolute",)},
    duplicated={"cls.predictions.bias": "cls.predictions.decoder.bias"},
    ignored=IGNORED,
)
