"""TrOCR's decoder (Li et al. 2021): BART's, which reads the text in an image."""

from typing import Any

from clearhead.hub.families.bart import embeddings
from clearhead.hub.families.marian import CONFIG, layer
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, Raw


def _offset(raw: Raw) -> int:
    """Returns the rows before the first position: two of a learned table, else those up to the padding's."""
    return 2 if raw.get("use_learned_position_embeddings", True) else ConfigKey("pad_token_id", 1).of(raw) + 1


def _positions(kind: Any, raw: Raw) -> dict[str, Any]:
    return {"use_learned_position_embeddings": kind == "learned"}


TROCR = Family(
    model_type="trocr",
    title="TrOCR",
    prefix="model",
    stacks=("decoder",),
    config={
        "vocab_size": ConfigKey("vocab_size", 50265),
        "positions": DerivedKey(
            lambda c: "learned" if c.get("use_learned_position_embeddings", True) else "sinusoidal_fairseq", _positions
        ),
        "position_offset": DerivedKey(_offset),
        "embedding_norm": ConfigKey("layernorm_embedding", True),
        "context_width": ConfigKey("cross_attention_hidden_size"),
        **{name.removeprefix("decoder."): key for name, key in CONFIG.items() if not name.startswith("encoder.")},
        "max_len": ConfigKey("max_position_embeddings", 512),
    },
    constants={},
    weights={
        "decoder.embed_tokens": "decoder.embedding.tokens",
        **embeddings("decoder"),
        **layer("decoder"),
    },
    heads={"TrOCRForCausalLM": HeadMapping("lm", {"output_projection": "output"}, {"bias": False})},
)
