"""Longformer and its encoder-decoder, LED (Beltagy et al. 2020): windows, and global tokens with own projections.

Which tokens are global depends on the head, as in `transformers`: the first of a text to classify, the question of a
reader; else none.
"""

from dataclasses import replace
from typing import Any

from clearhead.hub.families.bart import BART, embeddings
from clearhead.hub.families.marian import CONFIG, WORDS, layer
from clearhead.hub.families.roberta import ROBERTA
from clearhead.hub.mapping import ConfigKey, DerivedKey, Family, HeadMapping, Raw
from clearhead.models.attention_methods import method_entries

KIND = "projected_longformer"


def _windows(num_layers: str, global_tokens: int = 0, question: bool = False) -> DerivedKey:
    """The methods of all layers from `attention_window`: one size, or one for each layer."""

    def method(raw: Raw, window: int) -> dict[str, Any]:
        until = {"global_until": raw.get("sep_token_id", 2)} if question else {}
        return {"kind": KIND, "window": window, "global_tokens": global_tokens, **until}

    def read(raw: Raw) -> tuple[dict[str, Any], ...]:
        return method_entries([method(raw, window) for window in _sizes(raw.get("attention_window", 512))])

    def write(value: tuple[dict[str, Any], ...], raw: Raw) -> dict[str, Any]:
        sizes = [0] * raw[num_layers]
        for used in value:
            for i in used.get("layers", range(len(sizes))):
                sizes[i] = used.get("window", 0)
        written = {"attention_window": sizes}
        return written if all(sizes) and read({**raw, **written}) == value else {}  # others have a key of their own

    return DerivedKey(read, write)


def _sizes(sizes: Any) -> list[int]:
    given = sizes if isinstance(sizes, list) else [sizes]
    if bad := [w for w in given if not isinstance(w, int) or isinstance(w, bool) or w < 2 or w % 2]:
        raise ValueError(f"attention_window holds {bad[0]!r}: a window has an even number of tokens, 2 or more")
    return given


def _heads() -> dict[str, HeadMapping]:
    """RoBERTa's heads, with the global tokens of each."""
    first = {"attention": _windows("num_hidden_layers", 1)}
    question = {"attention": _windows("num_hidden_layers", question=True)}
    own = {"sequence": first, "span": question}
    return {
        name.replace("Roberta", "Longformer"): replace(head, config=own.get(str(head.kind), {}))
        for name, head in ROBERTA.heads.items()
    }


def _projections(prefix: str) -> dict[str, str]:
    """The second projections of a layer, under the names of its attention."""
    method = "encoder.blocks.{}.attention.core.method"
    return {f"{prefix}.{name}_global": f"{method}.{name}" for name in ("query", "key", "value")}


LONGFORMER = replace(
    ROBERTA,
    model_type="longformer",
    title="Longformer",
    prefix="longformer",
    config={
        **ROBERTA.config,
        "vocab_size": ConfigKey("vocab_size", 30522),
        "attention": _windows("num_hidden_layers"),
    },
    weights={**ROBERTA.weights, **_projections("encoder.layer.{}.attention.self")},
    heads=_heads(),
)

_SELF = "encoder.layers.{}.self_attn.longformer_self_attn"
_BART_NAMES = {"q_proj": "query", "k_proj": "key", "v_proj": "value"}


def _led_layer() -> dict[str, str]:
    """BART's encoder layer, whose attention has Longformer's names."""
    names: dict[str, str] = {}
    for name, target in layer("encoder").items():
        short = name.rpartition(".")[2]
        if short in _BART_NAMES:
            name = f"{_SELF}.{_BART_NAMES[short]}"
        names[name.replace("self_attn.out_proj", "self_attn.output")] = target
    return names | _projections(_SELF)


LED = Family(
    model_type="led",
    title="LED",
    prefix="led",
    stacks=("encoder", "decoder"),
    config={
        "vocab_size": ConfigKey("vocab_size", 50265),
        **{name: key for name, key in CONFIG.items() if name not in ("max_len", "scale_embeddings")},
        "encoder.max_len": ConfigKey("max_encoder_position_embeddings", 16384),
        "decoder.max_len": ConfigKey("max_decoder_position_embeddings", 1024),
        "encoder.attention": _windows("encoder_layers"),
    },
    constants={"positions": "learned", "embedding_norm": True},
    weights={
        "shared": "encoder.embedding.tokens",
        **embeddings("encoder"),
        **embeddings("decoder"),
        **_led_layer(),
        **layer("decoder"),
    },
    heads={
        "LEDModel": HeadMapping(None, prefixed=False),
        "LEDForConditionalGeneration": WORDS,
        "LEDForQuestionAnswering": HeadMapping("span", {"qa_outputs": "output"}, {"labels": ("start", "end")}),
    },
    aliases=BART.aliases,
    ignored=BART.ignored,
)
