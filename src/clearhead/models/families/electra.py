"""ELECTRA (Clark et al. 2020): a small generator fills in words, a discriminator finds which were replaced."""

from clearhead.models.families.bert import CONFIG, DROPOUT, EMBEDDINGS, LAYER
from clearhead.models.families.table import Derived, Family, Head, Key

ELECTRA = Family(
    model_type="electra",
    title="ELECTRA",
    prefix="electra",
    stacks=("encoder",),
    config={
        **CONFIG,
        "width": Key("hidden_size", 256),
        "embedding_width": Derived(
            lambda c: (
                None if c.get("embedding_size", 128) == c.get("hidden_size", 256) else c.get("embedding_size", 128)
            ),
            lambda v, raw: {"embedding_size": raw["hidden_size"] if v is None else v},
        ),
        "num_heads": Key("num_attention_heads", 4),
        "hidden": Key("intermediate_size", 1024),
    },
    constants={"positions": "learned", "embedding_norm": True},
    weights={**EMBEDDINGS, "embeddings_project": "encoder.embedding.widen", **LAYER},
    heads={
        "ElectraModel": Head(None, prefixed=False),
        "ElectraForPreTraining": Head(
            "discriminator",
            {"discriminator_predictions.dense": "inner.dense", "discriminator_predictions.dense_prediction": "output"},
            {"inner": lambda s: s.width, "activation": lambda s: s.activation, "labels": ("replaced",)},
        ),
        "ElectraForMaskedLM": Head(
            "vocabulary",
            {
                "generator_predictions.dense": "inner.dense",
                "generator_predictions.LayerNorm": "inner.norm",
                "generator_lm_head": "output",
            },
            {"inner": lambda s: s.embedding_width or s.width, "norm_eps": lambda s: s.norm_eps},
        ),
        "ElectraForSequenceClassification": Head(
            "sequence",
            {"classifier.dense": "inner.dense", "classifier.out_proj": "output"},
            {"inner": lambda s: s.width, **DROPOUT},
        ),
        "ElectraForTokenClassification": Head("token", {"classifier": "output"}, DROPOUT),
        "ElectraForQuestionAnswering": Head("span", {"qa_outputs": "output"}, {"labels": ("start", "end")}),
    },
    needs={"is_decoder": (False,), "position_embedding_type": ("absolute",)},
    ignored=(r".*position_ids", r".*token_type_ids"),
)
