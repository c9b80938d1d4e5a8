"""An encoder of images and a decoder of text: captions, text in images (VisionEncoderDecoder)."""

from dataclasses import replace
from typing import Any

from clearhead.hub.families.deit import DEIT
from clearhead.hub.families.gpt2 import GPT2
from clearhead.hub.families.trocr import TROCR
from clearhead.hub.families.vit import VIT
from clearhead.hub.mapping import (
    ConfigKey,
    DerivedKey,
    Family,
    HeadMapping,
    Raw,
    in_section,
)
from clearhead.hub.tensor_map import joined, transposed

MODEL_TYPE = "vision-encoder-decoder"
GPT2_CROSS = {
    "h.{}.crossattention.q_attn": transposed("decoder.blocks.{}.cross.query"),
    "h.{}.crossattention.c_attn": joined(
        "decoder.blocks.{}.cross.key", "decoder.blocks.{}.cross.value", transposed=True
    ),
    "h.{}.crossattention.c_proj": transposed("decoder.blocks.{}.cross.output"),
    "h.{}.ln_cross_attn": "decoder.blocks.{}.cross_norm",
}
ENCODERS = {"vit": VIT, "deit": DEIT}
DECODERS = {
    "gpt2": replace(
        GPT2,
        weights={**GPT2.weights, **GPT2_CROSS},
        config={**GPT2.config, "context_width": ConfigKey("cross_attention_hidden_size")},
        required_values={n: allowed for n, allowed in GPT2.required_values.items() if n != "add_cross_attention"},
    ),
    "trocr": TROCR,
}


def _section(part: str, family: Family, key: ConfigKey | DerivedKey) -> DerivedKey:
    """Returns a key of a part's family, read from and written to the part's section of config.json."""
    written: dict[str, Any] = {"model_type": family.model_type}
    if part == "decoder":
        written |= {"is_decoder": True, "add_cross_attention": True}
    inner = in_section(part, key, written)

    def of(raw: Raw) -> Any:
        section: Raw = raw.get(part, {})
        for name, allowed in family.required_values.items():
            if section.get(name) is not None and section[name] not in allowed:
                raise ValueError(f"config.json sets {part}.{name} to {section[name]!r}, which is not supported")
        return inner.of(raw)

    return DerivedKey(of, inner.to)


def _pair(encoder: Family, decoder: Family) -> Family:
    """Returns the family of an encoder-decoder from the families of its parts."""
    parts = {"encoder": encoder, "decoder": decoder}
    lm = next(head for head in decoder.heads.values() if head.kind == "lm")
    tied = in_section("decoder", ConfigKey("tie_word_embeddings", decoder.tied))
    return Family(
        model_type=MODEL_TYPE,
        title=f"{encoder.title} and {decoder.title}",
        prefix="",
        stacks=("encoder", "decoder"),
        config={f"{part}.{n}": _section(part, f, key) for part, f in parts.items() for n, key in f.config.items()},
        constants={f"{part}.{n}": value for part, f in parts.items() for n, value in f.constants.items()},
        weights={
            **{f"encoder.{name}": ours for name, ours in encoder.weights.items()},
            **{f"decoder.{decoder.prefix}.{name}": ours for name, ours in decoder.weights.items()},
            "enc_to_dec_proj": "memory_projection",
        },
        heads={
            "VisionEncoderDecoderModel": HeadMapping(
                "lm", {f"decoder.{name}": ours for name, ours in lm.weights.items()}, {**lm.settings, "tied": tied}
            ),
        },
        model={"shared_embedding": DerivedKey(lambda c: False)},
        ignored=(r"encoder\.pooler\..*", *decoder.ignored),
    )


VISION_ENCODER_DECODERS = {
    f"{MODEL_TYPE}/{a}/{b}": _pair(encoder, decoder)
    for a, encoder in ENCODERS.items()
    for b, decoder in DECODERS.items()
}
"""By the model types of the whole, the encoder and the decoder."""
