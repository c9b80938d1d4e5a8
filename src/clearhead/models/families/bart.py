"""BART (Lewis et al. 2020)."""

from clearhead.models.families.marian import CONFIG, WORDS, layer
from clearhead.models.families.table import Family, Head, Key

EMBEDDING = {
    "{0}.embed_positions": "{0}.embedding.positions.table",
    "{0}.layernorm_embedding": "{0}.embedding.norm",
}

BART = Family(
    model_type="bart",
    title="BART",
    prefix="model",
    stacks=("encoder", "decoder"),
    config={"vocab_size": Key("vocab_size", 50265), **CONFIG},
    constants={"positions": "learned", "position_offset": 2, "embedding_norm": True},
    weights={
        "shared": "encoder.embedding.tokens",
        **{a.format(stack): b.format(stack) for stack in ("encoder", "decoder") for a, b in EMBEDDING.items()},
        **layer("encoder"),
        **layer("decoder"),
    },
    heads={
        "BartModel": Head(None, prefixed=False),
        "BartForConditionalGeneration": WORDS,
        "BartForSequenceClassification": Head(
            "sequence",
            {"classification_head.dense": "inner.dense", "classification_head.out_proj": "output"},
            {
                "pool": "last",
                "inner": lambda s: s.width,
                "activation": "tanh",
                "dropout": Key("classifier_dropout", 0.0),
            },
        ),
        "BartForQuestionAnswering": Head("span", {"qa_outputs": "output"}, {"labels": ("start", "end")}),
    },
    needs={"is_decoder": (False,), "normalize_before": (False,), "add_final_layer_norm": (False,)},
    aliases={"shared.weight": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")},
    ignored=(r".*(encoder|decoder)\.embed_tokens\.weight",),
)
