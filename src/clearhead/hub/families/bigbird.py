"""BigBird (Zaheer et al. 2020): BERT with blocks of neighbours, and the first and the last block for all."""

from typing import Any

from clearhead.hub.families.bert import BERT, CLASSIFIER, CONFIG, DROPOUT, EMBEDDINGS, INNER, LAYER, PREDICTIONS, WORDS
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, Raw, activation

FULL, SPARSE = "original_full", "block_sparse"


def _read(raw: Raw) -> tuple[dict[str, Any], ...]:
    """`transformers` draws random blocks only while it trains; else it reads the first block as many times more.

    It also changes to full attention for short texts; this table does not.
    """
    kind = raw.get("attention_type", SPARSE)
    if kind == FULL:
        return ()
    if kind != SPARSE:
        raise ValueError(f"attention_type is {kind!r}: choose {SPARSE} or {FULL}")
    counts = 1 + raw.get("num_random_blocks", 3)
    shape = {"window": 3, "global_blocks": 1, "last_global": True, "random": 0}
    return ({"kind": "bigbird", "block": raw.get("block_size", 64), **shape, "first_counts": counts},)


def _write(value: tuple[dict[str, Any], ...], raw: Raw) -> dict[str, Any]:
    if not value:
        return {"attention_type": FULL}
    method = value[0]
    written = {
        "attention_type": SPARSE,
        "block_size": method.get("block", 64),
        "num_random_blocks": method.get("first_counts", 1) - 1,
    }
    return written if _read({**raw, **written}) == value else {}  # other methods have a key of their own


BIGBIRD = Family(
    model_type="big_bird",
    title="BigBird",
    prefix="bert",
    stacks=("encoder",),
    config={
        **CONFIG,
        "vocab_size": ConfigKey("vocab_size", 50358),
        "max_len": ConfigKey("max_position_embeddings", 4096),
        "activation": activation("hidden_act", "gelu_new"),
        "scale_embeddings": ConfigKey("rescale_embeddings", False),
        "attention_bias": ConfigKey("use_bias", True),
        "attention": DerivedKey(_read, _write),
    },
    constants={"positions": "learned", "embedding_norm": True, "output_bias": True},
    weights={**EMBEDDINGS, **LAYER},
    heads={
        "BigBirdModel": HeadMapping("pooler", {"~pooler": "pooler"}, {"pooler": True}, prefixed=False),
        "BigBirdForMaskedLM": HeadMapping("lm", PREDICTIONS, WORDS),
        "BigBirdForSequenceClassification": HeadMapping("sequence", CLASSIFIER, INNER),
        "BigBirdForTokenClassification": HeadMapping("token", {"classifier": "output"}, DROPOUT),
    },
    required_values={"is_decoder": (False,), "add_cross_attention": (False,)},
    duplicated=BERT.duplicated,
    ignored=BERT.ignored,
)
