"""ELECTRA (Clark et al. 2020): a small generator replaces tokens, a discriminator detects the replacements."""

from clearhead.hub.families.bert import CONFIG, DROPOUT, EMBEDDINGS, LAYER
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping

ELECTRA = Family(
    model_type="electra",
    title="ELECTRA",
    prefix="electra",
    stacks=("encoder",),
    config={
        **CONFIG,
        "width": ConfigKey("hidden_size", 256),
        "embedding_width": DerivedKey(
            lambda c: (
                None if c.get("embedding_size", 128) == c.get("hidden_size", 256) else c.get("embedding_size", 128)
            ),
            lambda v, raw: {"embedding_size": raw["hidden_size"] if v is None else v},
        ),
        "num_heads": ConfigKey("num_attention_heads", 4),
        "ffn_dim": ConfigKey("intermediate_size", 1024),
    },
    constants={"positions": "learned", "embedding_norm": True},
    weights={**EMBEDDINGS, "embeddings_project": "encoder.embedding.projection", **LAYER},
    heads={
        "ElectraModel": HeadMapping(None, prefixed=False),
        "ElectraForPreTraining": HeadMapping(
            "discriminator",
            {"discriminator_predictions.dense": "inner.dense", "discriminator_predictions.dense_prediction": "output"},
            {"inner": lambda s: s.width, "activation": lambda s: s.activation, "labels": ("replaced",)},
        ),
        "ElectraForMaskedLM": HeadMapping(
            "lm",
            {
                "generator_predictions.dense": "inner.dense",
                "generator_predictions.LayerNorm": "inner.norm",
                "generator_lm_head": "output",
            },
            {"inner": lambda s: s.embedding_width or s.width, "norm_eps": lambda s: s.norm_eps},
        ),
        "ElectraForSequenceClassification": HeadMapping(
            "sequence",
            {"classifier.dense": "inner.dense", "classifier.out_proj": "output"},
            {"inner": lambda s: s.width, **DROPOUT},
        ),
        "ElectraForTokenClassification": HeadMapping("token", {"classifier": "output"}, DROPOUT),
        "ElectraForQuestionAnswering": HeadMapping("span", {"qa_outputs": "output"}, {"labels": ("start", "end")}),
    },
    required_values={"is_decoder": (False,), "position_embedding_type": ("absolute",)},
    ignored=(r".*position_ids", r".*token_type_ids"),
)
