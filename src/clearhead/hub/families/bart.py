"""BART (Lewis et al. 2020)."""

from clearhead.hub.families.marian import CONFIG, WORDS, layer
from clearhead.hub.mapping import ConfigKey, Family, HeadMapping


def embeddings(stack: str) -> dict[str, str]:
    """Returns the tensor names of positions and norm, which LED and TrOCR share."""
    names = {"embed_positions": "positions.table", "layernorm_embedding": "norm"}
    return {f"{stack}.{theirs}": f"{stack}.embedding.{ours}" for theirs, ours in names.items()}


BART = Family(
    model_type="bart",
    title="BART",
    prefix="model",
    stacks=("encoder", "decoder"),
    config={"vocab_size": ConfigKey("vocab_size", 50265), **CONFIG},
    constants={"positions": "learned", "position_offset": 2, "embedding_norm": True},
    weights={
        "shared": "encoder.embedding.tokens",
        **embeddings("encoder"),
        **embeddings("decoder"),
        **layer("encoder"),
        **layer("decoder"),
    },
    heads={
        "BartModel": HeadMapping(None, prefixed=False),
        "BartForConditionalGeneration": WORDS,
        "BartForSequenceClassification": HeadMapping(
            "sequence",
            {"classification_head.dense": "inner.dense", "classification_head.out_proj": "output"},
            {
                "pool": "last",
                "inner": lambda s: s.width,
                "activation": "tanh",
                "dropout": ConfigKey("classifier_dropout", 0.0),
            },
        ),
        "BartForQuestionAnswering": HeadMapping("span", {"qa_outputs": "output"}, {"labels": ("start", "end")}),
    },
    required_values={"is_decoder": (False,), "normalize_before": (False,), "add_final_layer_norm": (False,)},
    aliases={"shared.weight": ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")},
    ignored=(r".*(encoder|decoder)\.embed_tokens\.weight",),
)
