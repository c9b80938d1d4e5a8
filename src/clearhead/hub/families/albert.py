"""ALBERT (Lan et al. 2020): shared layer weights, narrow token embeddings."""

from clearhead.hub.families.bert import CONFIG, EMBEDDINGS
from clearhead.hub.mapping import ConfigKey, Family, HeadMapping, activation

GROUP = "encoder.albert_layer_groups.{}.albert_layers.0"
LAYER = {
    f"{GROUP}.attention.query": "encoder.blocks.{}.attention.query",
    f"{GROUP}.attention.key": "encoder.blocks.{}.attention.key",
    f"{GROUP}.attention.value": "encoder.blocks.{}.attention.value",
    f"{GROUP}.attention.dense": "encoder.blocks.{}.attention.output",
    f"{GROUP}.attention.LayerNorm": "encoder.blocks.{}.attention_norm",
    f"{GROUP}.ffn": "encoder.blocks.{}.feedforward.up",
    f"{GROUP}.ffn_output": "encoder.blocks.{}.feedforward.down",
    f"{GROUP}.full_layer_layer_norm": "encoder.blocks.{}.feedforward_norm",
}
PREDICTIONS = {
    "predictions.dense": "inner.dense",
    "predictions.LayerNorm": "inner.norm",
    "predictions.decoder.weight": "output.weight",
    "predictions.bias": "output.bias",
}
WORDS = {"inner": lambda s: s.embedding_width, "activation": lambda s: s.activation, "norm_eps": lambda s: s.norm_eps}
DROPOUT = {"dropout": ConfigKey("classifier_dropout_prob", 0.1)}

ALBERT = Family(
    model_type="albert",
    title="ALBERT",
    prefix="albert",
    stacks=("encoder",),
    config={
        **CONFIG,
        "vocab_size": ConfigKey("vocab_size", 30000),
        "width": ConfigKey("hidden_size", 4096),
        "embedding_width": ConfigKey("embedding_size", 128),
        "num_groups": ConfigKey("num_hidden_groups", 1),
        "num_heads": ConfigKey("num_attention_heads", 64),
        "ffn_dim": ConfigKey("intermediate_size", 16384),
        "activation": activation("hidden_act", "gelu_new"),
        "dropout": ConfigKey("hidden_dropout_prob", 0.0),
        "attention_dropout": ConfigKey("attention_probs_dropout_prob", 0.0),
    },
    constants={"positions": "learned", "embedding_norm": True},
    weights={**EMBEDDINGS, "encoder.embedding_hidden_mapping_in": "encoder.embedding.projection", **LAYER},
    heads={
        "AlbertModel": HeadMapping("pooler", {"~pooler": "pooler"}, {"pooler": True}, prefixed=False),
        "AlbertForMaskedLM": HeadMapping("lm", PREDICTIONS, WORDS),
        "AlbertForPreTraining": HeadMapping(
            "pretraining",
            {
                **{k: f"words.{v}" for k, v in PREDICTIONS.items()},
                "~pooler": "pooler",
                "sop_classifier.classifier": "nsp",
            },
            {**WORDS, **DROPOUT},
        ),
        "AlbertForSequenceClassification": HeadMapping(
            "sequence", {"~pooler": "pooler", "classifier": "output"}, {"pooler": True, **DROPOUT}
        ),
        "AlbertForTokenClassification": HeadMapping("token", {"classifier": "output"}, DROPOUT),
        "AlbertForQuestionAnswering": HeadMapping("span", {"qa_outputs": "output"}, {"labels": ("start", "end")}),
    },
    required_values={"inner_group_num": (1,), "position_embedding_type": ("absolute",)},
    duplicated={"predictions.bias": "predictions.decoder.bias"},
    ignored=(r".*position_ids", r".*token_type_ids", r"predictions\.decoder\.bias"),
)
